// Package repair looks after stores that are damaged: Check finds all that is
// wrong with one, and Run saves what can be proven right into a new one. Programs
// may call them, but the API is not covered by the compatibility promise of
// package shale.
//
// Guarantees. Both only read the store: its files are opened for reading, and no
// byte or name in its folder changes. Neither needs a store that Open accepts.
// Damage is what they report; their errors are what kept them from looking.
// Read errors of the device are damage too, of the sectors that can't be read.
//
// # What is provable
//
// Every block and record carries a checksum that covers its store, its file and
// its place: what checks is authentic, and what does not is not used. But an
// authentic value may be an old one, if what was lost held a newer one, or a
// deletion. So each key stands or falls with its newest version (the highest
// sequence number):
//
//   - A version is proven if nothing that is lost can hold a newer one of its
//     key. A lost block may hold any key between those before and behind it; a
//     lost table any in the range that the manifest states; neither anything
//     newer than the table's highest number, or than what stands in a newer run.
//   - A gap in the log may hold any key. What the store held when the gap began is
//     a state that it was once in, whole; it is taken, and the commits behind the
//     gap are left.
//   - The same is true of a manifest that is damaged in the middle: the tables of
//     the last version before, with the logs that follow without a gap, are a
//     state that the store was once in. Tables that this version does not name are
//     left.
//   - Without any manifest nobody knows which of the tables were live. Merging drops
//     deletions once nothing is left for them to hide, so that an obsolete table
//     brings deleted keys back. Only the writes in the logs are proven then.
//
// Filters prove nothing. Check reads those beside tables too; Run needs none, and
// the tables of the new store get filters of their own.
//
// What is authentic and not proven is doubtful: Run leaves it out unless
// Options.Doubtful is set, and lists it either way.
//
// # Concurrency and memory
//
// Calls may run at the same time, on the same store too. Check runs beside a
// program that has the store open for writing, though it can't check what is
// being written; Run does not, and keeps such programs out while it runs. Run
// merges the tables as a compaction does, with one block of each run in memory;
// the live logs are held in memory, as Open does.
package repair
