package monitor

import "github.com/shaledb/shale"

// A metric is a row of a table of metrics, of the store (M is shale.Metrics) or of each level
// (shale.LevelMetrics).
type metric[M any] struct {
	name  string
	kind  string // counter or gauge
	help  string
	value func(*M) float64
}

// storeMetrics are the metrics of the store without labels. A name ends in the unit, and in
// total if the number only grows. There is no counter of lookups that miss, because it
// could fall: a lookup that has not ended counts as a miss until it hits. It is the
// difference of gets and hits.
var storeMetrics = []metric[shale.Metrics]{
	{"shale_gets_total", "counter", "Point lookups.", func(m *shale.Metrics) float64 { return float64(m.Gets) }},
	{"shale_get_hits_total", "counter", "Point lookups that found their key.", func(m *shale.Metrics) float64 { return float64(m.GetHits) }},
	{"shale_gets_expired_total", "counter", "Point lookups that met a value which was over.", func(m *shale.Metrics) float64 { return float64(m.GetExpired) }},
	{"shale_filter_negatives_total", "counter", "Filters of tables that said no: reads saved.", func(m *shale.Metrics) float64 { return float64(m.FilterNegative) }},
	{"shale_filter_true_positives_total", "counter", "Filters of tables that said maybe for a key that was there.", func(m *shale.Metrics) float64 { return float64(m.FilterTruePositive) }},
	{"shale_filter_false_positives_total", "counter", "Filters of tables that said maybe for a key that was not there.", func(m *shale.Metrics) float64 { return float64(m.FilterFalsePositive) }},
	{"shale_filter_false_positives_remembered_total", "counter", "False positives that cost no read, as the key had been proven absent before.", func(m *shale.Metrics) float64 { return float64(m.FalsePositivesRemembered) }},
	{"shale_filter_missing_total", "counter", "Tables looked into because they have no filter.", func(m *shale.Metrics) float64 { return float64(m.NoFilter) }},
	{"shale_filter_prefix_negatives_total", "counter", "Tables that scans passed over by their prefix.", func(m *shale.Metrics) float64 { return float64(m.PrefixNegative) }},
	{"shale_range_delete_skips_total", "counter", "Tables that lookups did not search because a range delete covers the key.", func(m *shale.Metrics) float64 { return float64(m.RangeDeleteSkips) }},
	{"shale_range_deletes", "gauge", "Parts of the keys that range deletes of tables cover.", func(m *shale.Metrics) float64 { return float64(m.RangeDeletes) }},
	{"shale_filters_unusable_total", "counter", "Filters that could not be used.", func(m *shale.Metrics) float64 { return float64(m.UnusableFilters) }},
	{"shale_filters_worse_total", "counter", "Filters that let pass many more absent keys than predicted.", func(m *shale.Metrics) float64 { return float64(m.WorseFilters) }},
	{"shale_predicted_false_positives", "gauge", "Expected false positives of a lookup of an absent key.", func(m *shale.Metrics) float64 { return m.PredictedFPR() }},
	{"shale_block_reads_total", "counter", "Blocks read from disk.", func(m *shale.Metrics) float64 { return float64(m.BlockReads) }},
	{"shale_block_read_bytes_total", "counter", "Bytes of blocks read from disk.", func(m *shale.Metrics) float64 { return float64(m.BlockReadBytes) }},
	{"shale_cache_hits_total", "counter", "Blocks found in the cache.", func(m *shale.Metrics) float64 { return float64(m.CacheHits) }},
	{"shale_cache_misses_total", "counter", "Blocks not found in the cache.", func(m *shale.Metrics) float64 { return float64(m.CacheMisses) }},
	{"shale_index_reads_total", "counter", "Indexes of tables, and partitions of them, read because they are not in memory.", func(m *shale.Metrics) float64 { return float64(m.IndexReads) }},
	{"shale_index_on_disk_bytes", "gauge", "Indexes of tables that are not in memory.", func(m *shale.Metrics) float64 { return float64(m.IndexOnDisk) }},
	{"shale_loading", "gauge", "1 while filters and indexes are read that Open has left for later.", func(m *shale.Metrics) float64 { return oneIf(m.Loading) }},
	{"shale_writes_total", "counter", "Operations written.", func(m *shale.Metrics) float64 { return float64(m.Writes) }},
	{"shale_written_bytes_total", "counter", "Bytes of keys and values written.", func(m *shale.Metrics) float64 { return float64(m.WrittenBytes) }},
	{"shale_log_syncs_total", "counter", "Syncs of the log.", func(m *shale.Metrics) float64 { return float64(m.WALSyncs) }},
	{"shale_log_bytes_total", "counter", "Bytes written to the log.", func(m *shale.Metrics) float64 { return float64(m.WALBytes) }},
	{"shale_flushes_total", "counter", "Memtables flushed.", func(m *shale.Metrics) float64 { return float64(m.Flushes) }},
	{"shale_flush_bytes_total", "counter", "Bytes of tables written by flushes.", func(m *shale.Metrics) float64 { return float64(m.FlushBytes) }},
	{"shale_compactions_total", "counter", "Compactions.", func(m *shale.Metrics) float64 { return float64(m.Compactions) }},
	{"shale_compaction_written_bytes_total", "counter", "Bytes of tables written by compactions.", func(m *shale.Metrics) float64 { return float64(m.CompactBytes) }},
	{"shale_ingests_total", "counter", "Ingestions of sorted entries.", func(m *shale.Metrics) float64 { return float64(m.Ingests) }},
	{"shale_ingest_bytes_total", "counter", "Bytes of tables written by ingestions.", func(m *shale.Metrics) float64 { return float64(m.IngestBytes) }},
	{"shale_compaction_read_bytes_total", "counter", "Bytes of tables read by compactions.", func(m *shale.Metrics) float64 { return float64(m.CompactReadBytes) }},
	{"shale_txn_commits_total", "counter", "Transactions committed, of those that have written something.", func(m *shale.Metrics) float64 { return float64(m.TxnCommits) }},
	{"shale_txn_conflicts_total", "counter", "Commits of transactions that failed because another writer changed what they had read.", func(m *shale.Metrics) float64 { return float64(m.TxnConflicts) }},
	{"shale_stalled_writes_total", "counter", "Waits of writers that were held back.", func(m *shale.Metrics) float64 { return float64(m.StalledWrites) }},
	{"shale_corruptions_total", "counter", "Reads that met damage.", func(m *shale.Metrics) float64 { return float64(m.CorruptionsMet) }},
	{"shale_background_retries_total", "counter", "Background work that failed and was tried again.", func(m *shale.Metrics) float64 { return float64(m.BackgroundRetries) }},
	{"shale_flushing", "gauge", "Flushes under way.", func(m *shale.Metrics) float64 { return float64(m.Flushing) }},
	{"shale_compacting", "gauge", "Compactions under way.", func(m *shale.Metrics) float64 { return float64(m.Compacting) }},
	{"shale_compaction_debt_bytes", "gauge", "Bytes that compactions have to rewrite until the tree is in shape.", func(m *shale.Metrics) float64 { return float64(m.CompactionDebt) }},
	{"shale_live_bytes", "gauge", "Estimated bytes of tables if all of them were merged.", func(m *shale.Metrics) float64 { return float64(m.LiveBytes) }},
	{"shale_open_iterators", "gauge", "Iterators open.", func(m *shale.Metrics) float64 { return float64(m.OpenIterators) }},
	{"shale_open_snapshots", "gauge", "Snapshots open.", func(m *shale.Metrics) float64 { return float64(m.OpenSnapshots) }},
	{"shale_oldest_snapshot_seconds", "gauge", "How long the oldest open snapshot has been.", func(m *shale.Metrics) float64 { return m.OldestSnapshotAge.Seconds() }},
	{"shale_open_txns", "gauge", "Transactions open that can write.", func(m *shale.Metrics) float64 { return float64(m.OpenTxns) }},
	{"shale_memtable_entries", "gauge", "Entries in memtables.", func(m *shale.Metrics) float64 { return float64(m.MemtableEntries) }},
}

// levelMetrics are the metrics that each level has, with the level as a label.
var levelMetrics = []metric[shale.LevelMetrics]{
	{"shale_level_runs", "gauge", "Runs of the level.", func(l *shale.LevelMetrics) float64 { return float64(l.Runs) }},
	{"shale_level_tables", "gauge", "Tables of the level.", func(l *shale.LevelMetrics) float64 { return float64(l.Tables) }},
	{"shale_level_bytes", "gauge", "Bytes of the tables of the level.", func(l *shale.LevelMetrics) float64 { return float64(l.Bytes) }},
	{"shale_level_entries", "gauge", "Entries of the level, deletions included.", func(l *shale.LevelMetrics) float64 { return float64(l.Entries) }},
	{"shale_level_deletions", "gauge", "Deletions among the entries of the level.", func(l *shale.LevelMetrics) float64 { return float64(l.Tombstones) }},
	{"shale_level_expiring", "gauge", "Entries of the level that expire.", func(l *shale.LevelMetrics) float64 { return float64(l.Expiring) }},
	{"shale_level_filter_bytes", "gauge", "Memory of the filters of the level.", func(l *shale.LevelMetrics) float64 { return float64(l.FilterBytes) }},
	{"shale_level_filter_bits_per_key", "gauge", "Bits a key of the filters of the level.", func(l *shale.LevelMetrics) float64 { return l.FilterBits }},
	{"shale_level_predicted_false_positives", "gauge", "Expected false positives of a lookup of an absent key that asks the level.", func(l *shale.LevelMetrics) float64 { return l.PredictedFPR }},
	{"shale_level_filter_asked_total", "counter", "Lookups of absent keys that asked a filter of the level.", func(l *shale.LevelMetrics) float64 { return float64(l.FilterAsked) }},
	{"shale_level_filter_false_positives_total", "counter", "And were let through, while the key was not there.", func(l *shale.LevelMetrics) float64 { return float64(l.FalsePositive) }},
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
