module github.com/shaledb/shale/bloom/compat/peertest

go 1.25

require (
	github.com/riobard/go-bloom v0.0.0-20200614022211-cdc8013cb5b3
	github.com/shaledb/shale v0.0.0
)

replace github.com/shaledb/shale => ../../..
