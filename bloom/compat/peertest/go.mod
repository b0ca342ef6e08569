module github.com/shaledb/shale/bloom/compat/peertest

go 1.25

require (
	github.com/riobard/go-bloom v0.0.0-20200614022211-cdc8013cb5b3
	github.com/shaledb/shale v0.0.0
)

require (
	github.com/klauspost/cpuid/v2 v2.2.10 // indirect
	github.com/zeebo/xxh3 v1.1.0 // indirect
	golang.org/x/sys v0.30.0 // indirect
)

replace github.com/shaledb/shale => ../../..
