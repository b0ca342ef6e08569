// Package object has the formats of a bucket: the names of objects, and the bytes of identities, segments, steps, states
// and pins, with an encoder and a decoder each. docs/REMOTE.md describes them with a worked example of each.
//
// A decoder gets the name of an object and the id of the store, and accepts only an object that was written under this
// name for this store. Every byte is covered by a checksum. A decoder allocates at most a small multiple of its input, and
// never panics. Encoders refuse what decoders would refuse. The package reads and writes no bucket.
//
// Damage is a *shale.CorruptionError with the name of the object; an object of a newer format gives shale.ErrFormatTooNew.
//
// A Position is where a segment stands, or may stand, in the list of all segments of a store.
//
// # Format
//
// docs/REMOTE.md has every byte. The following is the identity of store 0x1122334455667788, made
// 1,700,000,000,000 milliseconds after the beginning of 1970, in hexadecimal:
//
//	73 68 61 6c 65 42 4b 54  01 00 00 00  06 ff 74 ec   shaleBKT, version, its checksum
//	88 77 66 55 44 33 22 11                            store id
//	00 68 e5 cf 8b 01 00 00                            made
//	23 77 dd 06                                        checksum
package object
