// Package wal is the write-ahead log: files of records, each written once by
// one Writer and read once by recovery. It is public so that it can be read: its
// API is not covered by the compatibility promise of package shale.
//
// What it guarantees:
//
//  1. A record is in the operating system's hands when Append returns: it
//     survives the process. Once SyncTo or Sync has returned nil for its end,
//     it survives the machine.
//  2. Read hands out a prefix of the records that were appended, each whole
//     and unchanged, in order, and never one of another log, whatever the
//     bytes of the file are.
//  3. A torn tail, which a crash leaves, is told from damage: where records
//     that were synced are known to be missing, Read returns a
//     *base.CorruptionError with file and offset, and never a shorter log. The
//     evidence is in each record (how far the log was known to be durable when
//     it was written), in the seal, and in what manifest and successor say.
//     Of the last record, which no other says anything of, small errors are
//     told from what a torn write leaves: see rot.go.
//  4. The first failed write or sync is final for the Writer: nothing is
//     retried, and nothing is appended behind a torn record.
//  5. Reading takes memory for one block and the longest record, which can be
//     no longer than the file.
//
// A Writer has one appender at a time; SyncTo, Sync, Len, Synced and Stats may
// be called beside it by any number of goroutines, which share their syncs.
//
// The format is section 3 of docs/FORMAT.md: a header page, then blocks of 32
// KiB with fragments, after the log format of LevelDB. As an example, the
// record "hello" with sequence number 42 at the beginning of log 7 of store
// 0x0102030405060708:
//
//	fb 11 ac ac     checksum of store, log, offset and all that follows
//	08 00           length of the content, 8
//	29 12           tag: kind 1 (a full record), 0x1228 marks log 7
//	80 20           the log was durable up to offset 4096, its header
//	2a              last sequence number
//	68 65 6c 6c 6f  hello
//
// It leaves out compression, encryption and any knowledge of what a payload
// is. The package is public to be read; its API may change.
package wal
