dataset = dataset.prefetch(tf.data.AUTOTUNE)   # ADAPT: its last step
