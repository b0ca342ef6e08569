package crypt

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"unicode/utf8"

	"github.com/shaledb/shale/vfs"
)

var (
	// ErrNoKey says that a file names a key that was not given. It is a vfs.ErrEncrypted.
	ErrNoKey error = keyError("this key was not given")
	// ErrWrongKey says that the key with the number that a file names is not
	// the one that it was encrypted with. The file is not damaged. It is a vfs.ErrEncrypted.
	ErrWrongKey error = keyError("the file was encrypted with another key of this number")
	// ErrNotEncrypted says that a file was not written by this package.
	ErrNotEncrypted = errors.New("the file is not encrypted")
	// ErrTooNew says that a later version of this package has written a file.
	ErrTooNew = errors.New("a newer program has encrypted the file")
	// ErrRewritten says that a byte would be written again, with another value.
	ErrRewritten = errors.New("an encrypted file takes each byte once")
	// errLost says that a file can't be written, because its header is lost.
	errLost = errors.New("the header of the encrypted file is lost")
)

// A keyError is a vfs.ErrEncrypted that says more.
type keyError string

func (e keyError) Error() string      { return string(e) }
func (keyError) Is(target error) bool { return target == vfs.ErrEncrypted }

// The header of a file takes a page, in which it stands twice, at 0 and at 2048. Part of the
// file format, never changes: docs/FORMAT.md section 9.
//
//	0       8         12      16      20    24      36        84      88
//	| magic | version | check | flags | key | nonce | wrapped | check |
//
// wrapped is the key of the file, encrypted and authenticated with the key that has the number, by
// AES-256-GCM under the nonce. So another key for all files takes only new headers.
const (
	version     = 1
	headerSize  = 4096 // where the bytes of the file begin: a page, so that theirs are pages below
	headerUsed  = 88
	copyAt      = 2048
	nonceSize   = 12
	wrappedSize = keySize + 16

	// flagSparse says that there may be bytes that were never written. A block
	// of 16 bytes, aligned, that is all zeros below is then one of zeros.
	flagSparse = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A header says how a file is encrypted.
type header struct {
	sparse  bool
	key     uint32
	nonce   [nonceSize]byte
	wrapped [wrappedSize]byte

	at int // where the copy stands that was read
}

// page returns the page with the header.
func (h header) page() []byte {
	page := make([]byte, headerSize)
	le := binary.LittleEndian
	b := append(page[:0], vfs.EncryptedMagic...)
	b = le.AppendUint32(b, version)
	b = le.AppendUint32(b, crc32.Checksum(b, castagnoli))
	var flags uint32
	if h.sparse {
		flags |= flagSparse
	}
	b = le.AppendUint32(b, flags)
	b = le.AppendUint32(b, h.key)
	b = append(b, h.nonce[:]...)
	b = append(b, h.wrapped[:]...)
	b = le.AppendUint32(b, crc32.Checksum(b, castagnoli))
	copy(page[copyAt:], b)
	return page
}

// errDamaged says that bytes are no header, without a hint at what else they are.
var errDamaged = errors.New("no header")

// decodeHeader decodes the beginning of a file: a page, or less of a shorter file. With
// errDamaged there is no header, because a crash came before it or because it is damaged.
func decodeHeader(b []byte) (h header, err error) {
	for _, at := range []int{0, copyAt} {
		h, err = decodeCopy(b[min(at, len(b)):])
		if h.at = at; err == nil || errors.Is(err, ErrTooNew) {
			return h, err
		}
	}
	switch torn := min(len(b), len(vfs.EncryptedMagic)); {
	case string(b[:torn]) == vfs.EncryptedMagic[:torn]:
		return h, errDamaged
	case bytes.HasPrefix(b, []byte("shale")), len(b) < headerSize && utf8.Valid(b) && bytes.IndexByte(b, 0) < 0:
		return h, ErrNotEncrypted // other files begin so, or are text; a full disk and a crash leave no text
	}
	return h, errDamaged
}

// decodeCopy decodes a header. The version has a checksum of its own,
// so that a newer version is not taken for damage.
func decodeCopy(b []byte) (h header, err error) {
	le := binary.LittleEndian
	switch {
	case len(b) < headerUsed || string(b[:8]) != vfs.EncryptedMagic || le.Uint32(b[12:]) != crc32.Checksum(b[:12], castagnoli):
		return h, errDamaged
	case le.Uint32(b[8:]) != version:
		return h, fmt.Errorf("%w: version %d, this program knows %d", ErrTooNew, le.Uint32(b[8:]), version)
	case le.Uint32(b[84:]) != crc32.Checksum(b[:84], castagnoli):
		return h, errDamaged
	}
	flags := le.Uint32(b[16:])
	if flags&^flagSparse != 0 {
		return h, fmt.Errorf("%w: flags %#x", ErrTooNew, flags)
	}
	h.sparse, h.key = flags != 0, le.Uint32(b[20:])
	copy(h.nonce[:], b[24:])
	copy(h.wrapped[:], b[36:])
	return h, nil
}

// wrap sets the key of the file, encrypted with key.
func (h *header) wrap(key Key, secret []byte) error {
	aead, err := key.cipher()
	if err != nil {
		return err
	}
	h.key = key.ID
	_, _ = rand.Read(h.nonce[:]) // never fails
	aead.Seal(h.wrapped[:0], h.nonce[:], secret, nil)
	return nil
}

// unwrap returns the key of the file.
func (h *header) unwrap(keys Keys) (secret []byte, err error) {
	key, ok := keys.find(h.key)
	if !ok {
		return nil, fmt.Errorf("key %d: %w", h.key, ErrNoKey)
	}
	aead, err := key.cipher()
	if err == nil {
		// The checksum of the header is right, so it is the key that is not.
		if secret, err = aead.Open(nil, h.nonce[:], h.wrapped[:], nil); err != nil {
			err = ErrWrongKey
		}
	}
	if err != nil {
		return nil, fmt.Errorf("key %d: %w", h.key, err)
	}
	return secret, nil
}

// cipher returns the cipher with which keys of files are wrapped.
func (k Key) cipher() (cipher.AEAD, error) {
	block, err := aes.NewCipher(k.Secret)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
