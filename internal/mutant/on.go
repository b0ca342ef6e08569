//go:build mutant

// Package mutant holds bugs, to show that the tests find them: see off.go.
package mutant

import (
	"fmt"
	"os"
	"time"
)

var (
	chosen = os.Getenv("SHALE_MUTANT")
	known  = map[string]bool{"": true} // none
)

func is(name string) bool {
	known[name] = true
	return name == chosen
}

// These are described in off.go.
var (
	NoDirSync               = is("no-dir-sync")
	NoSealSync              = is("no-seal-sync")
	AckBeforeSync           = is("ack-before-sync")
	LogBuffered             = is("log-buffered")
	SyncRetried             = is("sync-retried")
	LogNotSettled           = is("log-not-settled")
	LogNotRewritten         = is("log-not-rewritten")
	SplitBatch              = is("split-batch")
	SeqReused               = is("seq-reused")
	LogEndsAtBadRecord      = is("log-ends-at-bad-record")
	LogEndsAtReadError      = is("log-ends-at-read-error")
	StaleLogRecords         = is("stale-log-records")
	LogDroppedEarly         = is("log-dropped-early")
	SharedLogReused         = is("shared-log-reused")
	MissingLogAccepted      = is("missing-log-accepted")
	NoTableDirSync          = is("no-table-dir-sync")
	NoManifestDirSync       = is("no-manifest-dir-sync")
	NoCurrentDirSync        = is("no-current-dir-sync")
	NoTableSync             = is("no-table-sync")
	NoManifestSync          = is("no-manifest-sync")
	NoEditSync              = is("no-edit-sync")
	AppendAfterTorn         = is("append-after-torn")
	ManifestEndsAtBadRecord = is("manifest-ends-at-bad-record")
	HeadlessIsNew           = is("headless-is-new")
	TombstoneDropped        = is("tombstone-dropped")
	SnapshotIgnored         = is("snapshot-ignored")
	KeySplit                = is("key-split")
	MergeEndsAtReadError    = is("merge-ends-at-read-error")
	FlushIsFinal            = is("flush-is-final")
	ReadErrorIsEnd          = is("read-error-is-end")
	VisibleEarly            = is("visible-early")
	StaleView               = is("stale-view")
	LostClaim               = is("lost-claim")
	RemovedWhileRead        = is("removed-while-read")
	FilterMissesKey         = is("filter-misses-key")
	MemtableFilterMissesKey = is("memtable-filter-misses-key")
	ThinFilter              = is("thin-filter")
	NoSidecarSync           = is("no-sidecar-sync")
	NoSidecarDirSync        = is("no-sidecar-dir-sync")
	ForeignSidecar          = is("foreign-sidecar")
	SidecarRemovedWhileRead = is("sidecar-removed-while-read")
	SidecarLeftBehind       = is("sidecar-left-behind")
	PrefixMissed            = is("prefix-missed")
	PrefixTooWide           = is("prefix-too-wide")
	DamagedFilter           = is("damaged-filter")
	MemtableNotExported     = is("memtable-not-exported")
	FilterlessNotExported   = is("filterless-not-exported")
	ExportUnprotected       = is("export-unprotected")
	AbsenceOfOld            = is("absence-of-old")
	AbsenceByHash           = is("absence-by-hash")
	NoChecksum              = is("no-checksum")
	BlockAnywhere           = is("block-anywhere")
	ForeignTable            = is("foreign-table")
	LengthBelieved          = is("length-believed")
	LeftOpen                = is("left-open")
	GoroutineLeft           = is("goroutine-left")
	NoLock                  = is("no-lock")
	StaleSaved              = is("stale-saved")
)

func init() {
	if !known[chosen] {
		panic(fmt.Sprintf("SHALE_MUTANT: there is no %q", chosen))
	}
}

// Pause widens the window of a race that a mutant has.
func Pause() { time.Sleep(time.Millisecond) }
