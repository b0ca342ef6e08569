// Package wal is the write-ahead log. A log is a file of records. One Writer writes it, and
// recovery reads it once. The package is public so that others can read it. The compatibility
// promise of package shale does not cover its API.
//
// What it guarantees:
//
//  1. When Append returns, the operating system has the record: it survives a crash of the
//     process. When SyncTo or Sync has returned nil for the record's end, it survives a crash
//     of the machine.
//  2. Read returns a prefix of the records that were appended, each whole and unchanged, in
//     order, and never a record of another log. This holds for any bytes in the file.
//  3. Read distinguishes a torn tail, which a crash leaves, from damage. Where records that
//     were synced are known to be missing, it returns a *base.CorruptionError with file and
//     offset, and never just a shorter log. The evidence is in each record (how far the log
//     was known to be durable when the record was written), in the seal, and in what the
//     manifest and the next log say. No other record says anything about the last one. There
//     Read tells a flipped bit from what a torn write leaves: see rot.go.
//  4. The first failed write or sync is final for the Writer. Nothing is tried again, and
//     nothing is appended after a torn record.
//  5. Reading takes memory for one block and the longest record, which can be no longer than
//     the file.
//
// One goroutine at a time may append to a Writer. Meanwhile any number of goroutines may call
// SyncTo, Sync, Len, Synced and Stats. They share their syncs.
//
// The format is section 3 of docs/FORMAT.md: a header page, then blocks of 32 KiB with
// fragments, similar to the log format of LevelDB. As an example, this is the record "hello"
// with sequence number 42 at the beginning of log 7 of store 0x0102030405060708:
//
//	fb 11 ac ac     checksum of store, log, offset and all that follows
//	08 00           length of the content, 8
//	29 12           tag: kind 1 (a full record), 0x1228 marks log 7
//	80 20           the log was durable up to offset 4096, its header
//	2a              last sequence number
//	68 65 6c 6c 6f  hello
//
// It leaves out compression and encryption, and it knows nothing about the content of a
// payload.
package wal
