module github.com/shaledb/shale

go 1.25

require (
	github.com/cockroachdb/datadriven v1.0.2
	github.com/golang/snappy v1.0.0
	github.com/google/btree v1.1.3
	github.com/klauspost/compress v1.19.2
	github.com/peterh/liner v1.2.3
	github.com/spaolacci/murmur3 v1.1.0
	pgregory.net/rapid v1.3.0
)
