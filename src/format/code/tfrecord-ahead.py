tf.data.TFRecordDataset(files, buffer_size=8 << 20, num_parallel_reads=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
