// Package transact looks at transactions as a program does that imports shale, at the sizes that such programs have:
// many clients on few keys, a million writes and ten million reads in one transaction, and readers that take long
// next to writers at full speed.
package transact
