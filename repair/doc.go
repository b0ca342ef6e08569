// Package repair examines and saves damaged stores. Check finds everything that is wrong
// with a store. Run saves what is provably correct into a new one. Programs may call them,
// but the compatibility promise of package shale does not cover this API.
//
// Guarantees. Both only read the store: they open its files for reading, and change no
// byte and no name in its folder. Neither needs a store that Open accepts. Damage is in
// their reports; an error means that they could not examine the store. Sectors that the
// device cannot read are damage too.
//
// # What is provable
//
// Every block and record carries a checksum that covers its store, its file and its
// place. What passes the check is authentic, and what does not pass is not used. But an
// authentic value may be an old one: a newer value of the key, or its deletion, may be
// among what is lost. So the newest version of each key decides, which is the one with
// the highest sequence number:
//
//   - A version is proven if no lost block or table can hold a newer one of its key. A lost
//     block may hold any key between its neighbours. A lost table may hold any key in the
//     range that the manifest states. Neither can hold a version that is newer than the
//     table's highest sequence number, or newer than what is in a newer run.
//   - A gap in the log may hold any key. The state of the store just before the
//     gap is a state that the store really was in. Run takes that state, and
//     leaves the commits behind the gap.
//   - The same holds for a manifest that is damaged in the middle. The tables of the last
//     version before the damage, together with the logs that follow without a gap, are a
//     state that the store was in. Run leaves tables that this version does not name.
//   - An ingestion is in tables only; the log has a mark of it. So a write in the log is
//     not the newest version of a key if a mark follows whose range has the key: then the
//     tables decide. The mark may be missing. So a log that is not needed any more helps only
//     if no sequence number is left out behind it. And a mark whose tables the manifest does
//     not have is a gap.
//   - A range delete covers what is older, in tables and in logs. A log has it until its memtable is
//     flushed. From then on the manifest has it, until no table has anything that it covers. So each
//     state that Run takes comes with its range deletes. Those behind a gap are doubtful, as all
//     commits there are.
//   - Without any manifest it is unknown which of the tables were live. Compactions drop a
//     deletion when nothing is left that it hides. So an obsolete table would bring deleted
//     keys back. Only the writes in the logs are proven then.
//
// Filters prove nothing. Check reads the filter files of tables too. Run needs no filters;
// the tables of the new store get filters of their own.
//
// What is authentic and not proven is doubtful. Run leaves it out unless Options.Doubtful
// is set, and lists it either way.
//
// # Concurrency and memory
//
// Calls may run at the same time, also on the same store. Check may run while a program has
// the store open for writing, but cannot check what is being written. Run may not: it keeps
// writers out while it runs. Run merges the tables as a compaction does, with one block of
// each run in memory. The live logs are held in memory, as Open does.
package repair
