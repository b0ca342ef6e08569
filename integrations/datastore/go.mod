module github.com/shaledb/shale/integrations/datastore

go 1.26.0

replace github.com/shaledb/shale => ../..

require (
	github.com/ipfs/go-datastore v0.9.2
	github.com/ipfs/go-ds-leveldb v0.5.0
	github.com/shaledb/shale v0.0.0
)

require (
	github.com/golang/snappy v1.0.0 // indirect
	github.com/google/btree v1.1.3 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/ipfs/go-detect-race v0.0.1 // indirect
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/syndtr/goleveldb v1.0.0 // indirect
)
