package vfs

import "errors"

// EncryptedMagic is what each file begins with that package crypt has written. A program
// that finds it in a file which it has opened without that package returns [ErrEncrypted].
const EncryptedMagic = "shaleENC"

// ErrEncrypted says that a file is encrypted, and was opened without its key.
var ErrEncrypted = errors.New("the file is encrypted: it takes the file system of package vfs/crypt, with its keys")
