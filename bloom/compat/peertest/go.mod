module github.com/shaledb/shale/bloom/compat/peertest

go 1.25

require (
	github.com/cespare/xxhash/v2 v2.3.0
	github.com/greatroar/blobloom v0.8.0
	github.com/holiman/bloomfilter/v2 v2.0.3
	github.com/shaledb/shale v0.0.0
)

require github.com/FastFilter/xorfilter v0.4.2-0.20260120015552-4e5a4d9df65a // indirect

replace github.com/shaledb/shale => ../../..
