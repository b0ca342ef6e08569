package crypt

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A Key is a secret with a number, by which files name it.
type Key struct {
	ID     uint32 // the number by which files name it
	Secret []byte // 32 random bytes
}

// Keys are the keys that files may be encrypted with. New files take the last one.
type Keys []Key

// keySize is the size in bytes of a secret, and of the key of a file.
const keySize = 32

// check returns why the keys can't be used, or nil.
func (k Keys) check() error {
	if len(k) == 0 {
		return errors.New("crypt: no keys")
	}
	seen := make(map[uint32]bool)
	for _, key := range k {
		if len(key.Secret) != keySize {
			return fmt.Errorf("crypt: key %d has %d bytes, want %d", key.ID, len(key.Secret), keySize)
		}
		if seen[key.ID] {
			return fmt.Errorf("crypt: key %d is given twice", key.ID)
		}
		seen[key.ID] = true
	}
	return nil
}

// newest returns the key of new files.
func (k Keys) newest() Key { return k[len(k)-1] }

// find returns the key with a number.
func (k Keys) find(id uint32) (Key, bool) {
	for _, key := range k {
		if key.ID == id {
			return key, true
		}
	}
	return Key{}, false
}

// ReadKeys reads keys as text: on each line a number, a space and 64 hexadecimal digits,
// the newest last. Empty lines and those that begin with # do not count. Errors
// name the line and never show what is on it.
func ReadKeys(r io.Reader) (Keys, error) {
	var keys Keys
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("crypt: line %d of the keys: want a number and %d hexadecimal digits", n, 2*keySize)
		}
		id, err := strconv.ParseUint(fields[0], 10, 32)
		secret, herr := hex.DecodeString(fields[1])
		if err != nil || herr != nil {
			return nil, fmt.Errorf("crypt: line %d of the keys: want a number and %d hexadecimal digits", n, 2*keySize)
		}
		keys = append(keys, Key{uint32(id), secret})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("crypt: read keys: %w", err)
	}
	return keys, keys.check()
}
