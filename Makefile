# Each target is one line.
FUZZTIME   ?= 5s
T          ?= 5m

.PHONY: test race lint fuzz proof sweep soak mutants pauses flaky bench figures peers filters steady scale cross systems size simulate release binaries redis-tests s3-servers

test:  ; go test ./... && go test -C cmd ./...
race:  ; go test -race -short ./...
lint:  ; .ci/lint
fuzz:  ; .ci/fuzz $(FUZZTIME)
proof: ; .ci/proof
sweep: ; T=$(T) .ci/proof all
soak:  T = 30m
soak:  ; go run ./test/soak -t $(T) $(if $(SEED),-seed $(SEED)) $(if $(DIR),-dir $(DIR))
mutants: ; .ci/mutate $(MUTANTS)
pauses: ; go run ./internal/pauses -t $(T) $(if $(SEED),-seed $(SEED)) $(if $(RUN),-run '$(RUN)') $(if $(SITES),-sites $(SITES)) $(if $(RACE),-race)
flaky: ; .ci/flaky $(or $(ROUNDS),20) $(if $(PACKAGES),'$(PACKAGES)')
bench: ; go run ./bench
figures: ; cd bench/report && go run . -o ../../docs/figures
peers: ; cd bench/peers && go run -tags '$(TAGS)' . -table
filters: ; cd bench/peers && go run ./filters
steady: T = 20m
steady: ; cd bench/peers && go run ./steady -t $(T)
scale: ; go run ./bench/scale $(if $(TABLES),-tables $(TABLES)) $(if $(KEYS),-keys $(KEYS)) $(if $(DIR),-dir $(DIR) -keep) $(if $(ROWS),-rows '$(ROWS)')
cross: ; .ci/cross
systems: ; .ci/systems $(SYSTEMS)
size:  ; .ci/size
redis-tests: ; SHALE_LONG=1m REDIS=$(abspath $(REDIS)) REDISBLOOM=$(abspath $(REDISBLOOM)) go test -C cluster/cmd -count 1 -timeout 0 -v ./internal/suites
s3-servers: ; SHALE_S3_SERVERS=all go test -C remote/s3 -count 1 -timeout 0 -v -run "^TestServer_" .
release: ; cd internal/release && go run . -repo ../.. $(if $(DRY),-n) tag $(VERSION)
binaries: ; cd internal/release && go run . -repo ../.. $(if $(SYSTEMS),-systems $(SYSTEMS)) binaries $(VERSION)
simulate: T = 1h
simulate: ; SHALE_LONG=$(T) go test -count 1 -run Simulate_Table -timeout 0 -v ./compaction
