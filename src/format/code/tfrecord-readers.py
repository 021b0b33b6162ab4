tf.data.TFRecordDataset(files, num_parallel_reads=COUNT)
