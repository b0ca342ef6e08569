//go:build !mutant

// Package mutant holds bugs, to show that the tests find them. Built with the
// tag mutant, the variable SHALE_MUTANT puts one of them into the program (its
// names are in on.go); without the tag all are false constants, and the
// compiler leaves no trace of them.
//
// Each is one that a real store had (it is named), or breaks an invariant of
// docs/ARCHITECTURE.md, and has the tests behind it that must fail. `make
// mutants` runs those, as .ci/mutants.txt says. A bug that is put back by a patch
// needs nothing here: those are in .ci/mutants.
package mutant

// The log, and what a crash leaves.
const (
	// A new log's name is not made durable (goleveldb 126854a, pebble#128): TestCrash_AtEveryOperation
	NoDirSync = false
	// The old log is not synced when the next one begins (goleveldb 126854a, LevelDB): TestCrash_AtEveryOperation,
	// TestLinear_Crash
	NoSealSync = false
	// A write that was to be durable is acknowledged before the sync (etcd#14370): TestCrash_AtEveryOperation,
	// TestLinear_Crash
	AckBeforeSync = false
	// A write is acknowledged before the system has it (Pebble, by design): TestKill
	LogBuffered = false
	// A failed sync of the log is tried again, and believed (cockroach#37109): TestFault_FailedSyncOfTheLogIsFinal
	SyncRetried = false
	// What an earlier process left in the log is believed to be durable (cockroach#37109): TestModel_Random
	LogNotSettled = false
	// The same log is synced, which writes nothing if a sync has failed before (cockroach#37109):
	// TestOpen_AfterAFailedSyncOfTheLog
	LogNotRewritten = false
	// A batch of several operations goes into the log as several records (badger#570): TestCrash_AtEveryOperation,
	// TestLinear_Crash
	SplitBatch = false
	// A failed write's sequence numbers are used again (rocksdb#12873): TestFault_NowAndThen
	SeqReused = false
	// A bad record in the middle of the log is taken for its end (pebble#453): TestRead_EveryByteFlipped,
	// TestCorruption_Sweep
	LogEndsAtBadRecord = false
	// An error when the log is read is taken for its end (rocksdb#6963): TestRead_ReadError
	LogEndsAtReadError = false
	// Records do not tell which log they are of, where logs are used again (pebble#567): TestCrash_AtEveryOperation
	StaleLogRecords = false
	// A log is let go although an immutable memtable needs it (rocksdb#9906): TestModel_Random
	LogDroppedEarly = false
	// A log that a checkpoint shares is written over: TestModel_Random
	SharedLogReused = false
	// A log that is missing among others is not missed (rocksdb#12488): TestOpen_MissingLogThatTheManifestDoesNotKnow
	MissingLogAccepted = false
)

// The manifest and CURRENT.
const (
	// The name of a new table is not made durable before the manifest has it (rocksdb#5435): TestCrash_AtEveryOperation
	NoTableDirSync = false
	// The name of a new manifest is not made durable before CURRENT has it (goleveldb#335): TestCrash_AtEveryOperation
	NoManifestDirSync = false
	// CURRENT's new content is not made durable before the old manifest goes (rocksdb#10573): TestCrash_AtEveryOperation
	NoCurrentDirSync = false
	// A table is not synced before the manifest names it (leveldb#333): TestCrash_AtEveryOperation
	NoTableSync = false
	// A new manifest is not synced before CURRENT names it (goleveldb#351): TestModel_Random
	NoManifestSync = false
	// An edit is not synced before what it makes obsolete is removed (rocksdb#10460): TestCrash_AtEveryOperation
	NoEditSync = false
	// Edits are appended to a manifest after one that failed (rocksdb#6316): TestFault_NowAndThen
	AppendAfterTorn = false
	// Any bad record of the manifest is taken for a torn end (Pebble, goleveldb): TestLoad_EveryBitCounts,
	// TestCorruption_Sweep
	ManifestEndsAtBadRecord = false
	// A store without CURRENT is taken for a new one, and its files for leftovers (goleveldb#184):
	// TestOpen_LogsWithoutCurrent
	HeadlessIsNew = false
)

// Flushes and compactions.
const (
	// A compaction looks for older data from one level too deep on, and drops tombstones whose values come back
	// (badger#2143): TestLife_NobodyCanTell, TestModel_Random
	TombstoneDropped = false
	// Flushes and compactions drop versions that a snapshot sees (pebble#1285, rocksdb#9648): TestModel_Random
	SnapshotIgnored = false
	// The versions of one key may come into two tables of a run (leveldb#320): TestMerge_NobodyCanTell,
	// TestSnapshot_Many
	KeySplit = false
	// A read error is taken for the end of a compaction's input (rocksdb#11782): TestFault_NowAndThen,
	// TestMerge_ErrorIsNotAnEnd
	MergeEndsAtReadError = false
	// A flush that failed makes the store read-only for good (rocksdb#919): TestFault_FullDisk
	FlushIsFinal = false
)

// Readers.
const (
	// A read error is taken for the end of one of an iterator's sources (pebble 1e4b11e): TestFault_NowAndThen,
	// TestMerging_ErrorAtEveryOperation
	ReadErrorIsEnd = false
	// A batch is visible before all of it can be read (goleveldb#74): TestConcurrency_Crowd, TestLinear
	VisibleEarly = false
	// An iterator takes its sequence number before its tables (rocksdb#6973): TestConcurrency_Crowd, TestLinear
	StaleView = false
	// PutIfAbsent does not look at what was written meanwhile: TestPutIfAbsent_OneWinner, TestLinear
	LostClaim = false
	// A table is removed while an iterator reads it (dain/leveldb#78): TestModel_Random
	RemovedWhileRead = false
)

// Filters, and what was learnt from them.
const (
	// Another key is in a table's filter instead of the first (rocksdb#9342): TestMetamorphic, TestTable_RoundTrip,
	// TestFilterOracle_Stores
	FilterMissesKey = false
	// Some keys are not in the memtable's filter (rocksdb#2743): TestFilterOracle_Stores, TestFilter_NeverDenies
	MemtableFilterMissesKey = false
	// Filters have half the bits that they say they have: TestReader_FilterUnits
	ThinFilter = false
	// A filter beside a table is not synced before the manifest names it: TestCrash_AtEveryOperation
	NoSidecarSync = false
	// Its name is not made durable before the manifest has it: TestCrash_AtEveryOperation
	NoSidecarDirSync = false
	// Whose filter it is that stands beside a table is not checked: TestSidecar_Foreign
	ForeignSidecar = false
	// A filter beside a table is removed while a checkpoint may link it: TestRebuildFilters_KeepsWhatIsRead
	SidecarRemovedWhileRead = false
	// A move of a table that was planned before it got a filter leaves that behind: TestRebuildFilters_WhileATableMoves
	SidecarLeftBehind = false
	// Some prefixes are not in the filter (rocksdb#5835): TestPrefix_HidesNothing
	PrefixMissed = false
	// A range that begins in a prefix is taken to lie in it: TestPrefix_Random
	PrefixTooWide = false
	// A damaged filter is believed (cqlite#1398): TestDamage_EveryByte, TestFilterDamage_DeniesNothing
	DamagedFilter = false
	// A bundle of filters lacks what is in memtables only: TestExportFilters_Stores, TestExportFilters_Refused
	MemtableNotExported = false
	// A bundle of filters lacks the tables that have none: TestExportFilters_Stores, TestExportFilters_WithoutFilters
	FilterlessNotExported = false
	// What is deleted while an export begins may be missing at its sequence number: TestExportFilters_Meanwhile
	ExportUnprotected = false
	// That a snapshot does not see a key is remembered as its absence: TestModel_Random
	AbsenceOfOld = false
	// Absence is remembered by a key's hash, not by its bytes: TestFalsePositives_ExactUnderEqualHashes
	AbsenceByHash = false
)

// Damage, hostile files, other processes.
const (
	// Checksums of blocks are not compared (badger#1049): TestCorruption_Sweep, TestRepair_Sweep
	NoChecksum = false
	// Checksums of blocks do not tell their place (misdirected writes): TestDamage_BlocksSwapped
	BlockAnywhere = false
	// Whose table it is, and which, is not checked: TestCorruption_Sweep
	ForeignTable = false
	// A length in a table is believed when memory is taken for it (leveldb#1349): TestIndex_Damaged
	LengthBelieved = false
	// A failed Open leaves the manifest open (leveldb#401): TestFault_NowAndThen, TestFault_AtEveryOperation
	LeftOpen = false
	// A failed Open leaves a goroutine behind (Pebble v2.1.7): TestLeaks_OpenAndClose
	GoroutineLeft = false
	// Nothing keeps two handles from writing to a store (SparrowDB#524): TestOpen_Locked
	NoLock = false
	// Repair takes a version for proven where a newer one may be lost (leveldb#251): TestRepair_Sweep
	StaleSaved = false
)

// Pause widens the window of a race that a mutant has.
func Pause() {}
