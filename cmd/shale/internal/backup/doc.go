// Package backup copies a store into a folder again and again, each time only what the folder lacks,
// and restores the store as it was after any commit that the folder has.
//
// The folder has a subfolder for each *line*, whose name begins with its number:
//
//	000001-5be0cd19137e2179/   the number, and the session of the store when the line was begun
//	    000012.sst ...         the base: the tables of the store, their sidecars, and a manifest
//	    MANIFEST-000017, CURRENT
//	    increments/000001.wal  what was committed after the base, a log for each run
//	    points.json            a line counts when it has this file, an increment when it is in it; with a checksum
//
// A run reads the logs of the store by way of logset.Feed, so it leaves no commit out. It begins a new
// line if the increments can't go on from the last one:
//
//  1. The logs do not reach back so far.
//  2. The store is at another state than one that follows: it was restored to an earlier moment, or a power cut, or
//     DB.Resume, has taken writes that the line has.
//  3. There was an ingestion, which no log has.
//
// Tables never change, so a new line gives tables that an earlier one has a second name, where the
// file system can. Of a line, the base and every commit after it can be restored; between the
// end of a line and the base of the next there is nothing.
//
// A run may be next to a program that writes to the store. It takes no lock of the store, so tables may
// vanish while it copies; it then reads the manifest once more and goes on with what is there.
package backup
