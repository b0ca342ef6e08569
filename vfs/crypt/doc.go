// Package crypt is a file system that encrypts what is in files, for stores on disks that others
// may come to read. New lays it over another file system, and the store gets it as Options.FS.
//
// What it guarantees:
//
//  1. Bytes of files reach the file system below only as ciphertext of AES-256 in counter mode,
//     under a key of the file's own. Names and sizes are as they are, and so is the lock file.
//  2. What the file system below promises of bytes, names and crashes holds: a byte that was
//     written and synced does not change by what is written next to it.
//  3. A key that is missing (ErrNoKey) or has other bytes (ErrWrongKey) is an error of Open, which
//     names the key and the file, and never looks like damage.
//
// What it leaves out: it authenticates nothing. Somebody who can write to the disk can change
// bits, and can put back older files. A store's checksums find accidents, not attacks.
//
// Counter mode needs each byte written once under a nonce, so a file takes each byte once:
// another value is ErrRewritten (see vfs.WriteOnce for how a log is used again), unless all that
// differs was zeros below, as one byte of 256 is. Where a file grows, up to 15 zeros may be
// written in front of what later stands there. In one of 4,000 writes to preallocated space, so
// is one byte. Only somebody who copies the disk before and after could learn these few bytes.
// docs/decisions/0011-encryption.md says why it is not XTS.
//
// The format is section 9 of docs/FORMAT.md.
package crypt
