// Package filterplan decides which filters the tables of a store get. It is public
// so that it can be read: its API is not covered by the compatibility promise of
// package shale.
//
// Guarantees. All functions are pure: they read no file, take no lock and need no
// store, and the same question always has the same answer. Types are plain values
// that do not change once they are made.
//
// A Policy is what the options of a store say about filters. It answers, with the
// other functions of the package:
//
//   - how many bits a key the filters of each run get: Policy.Plan divides the memory
//     among the runs of a Tree by the entropy rule, in which levels that are rarely
//     asked in vain (ProbeHistory, ProbeShares) get fewer bits;
//   - which kind of filter a table gets: Policy.Kind by its level, and ChooseKind by
//     its number of keys;
//   - which hash function a store uses: ChooseHasher;
//   - whether the filter of a table may stay as it is: WantedFilter.SatisfiedBy;
//   - how much memory filters may take: Policy.Budget;
//   - whether a filter is worse than predicted: JudgedAt and IsWorse;
//   - which share of lookups asks a run at all: KeySpread.
//
// For example, a store has 10 bits a key on average. Level 5 has a million keys, and
// level 6 has ten million. A tenth of the keys needs so little memory that its filters
// get 14 bits a key, while those of level 6 still get 9.6. A lookup of an absent key
// then reads 0.013 blocks on average. With 10 bits for both it would read 0.019.
//
// It leaves out which filters are in memory at a moment, and what lookups count. This
// is the state of a store, which the root package keeps.
package filterplan
