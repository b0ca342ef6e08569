module github.com/shaledb/shale

go 1.25

require (
	github.com/golang/snappy v1.0.0
	github.com/google/btree v1.1.3
	github.com/klauspost/compress v1.19.2
)
