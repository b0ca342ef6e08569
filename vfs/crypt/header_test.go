package crypt

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// example is the file of docs/FORMAT.md section 9: "hello, shale" under the key 00, 01, ..., which is
// wrapped with key 7, of a0, a1, ..., under a nonce of 00, 01, ...
func example(t testing.TB) []byte {
	key := Key{ID: 7}
	h := header{key: 7}
	var secret []byte
	for i := range keySize {
		secret = append(secret, byte(i))
		key.Secret = append(key.Secret, byte(0xa0+i))
	}
	copy(h.nonce[:], secret)
	aead, err := key.cipher()
	must(t, err)
	aead.Seal(h.wrapped[:0], h.nonce[:], secret, nil)
	f := &file{keys: Keys{key}}
	must(t, f.unlock(h))
	return append(h.page(), f.encrypt([]byte("hello, shale"), 0)...)
}

// The worked example of docs/FORMAT.md is what is written.
func TestHeader_Golden(t *testing.T) {
	doc, err := os.ReadFile("../../docs/FORMAT.md")
	must(t, err)
	_, text, _ := strings.Cut(string(doc), "```example encrypted\n")
	text, _, found := strings.Cut(text, "```")
	if !found {
		t.Fatal("docs/FORMAT.md has no example of an encrypted file")
	}
	got := example(t)
	for line := range strings.Lines(text) {
		var at int
		if _, err := fmt.Sscan(line, &at); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		fields := strings.TrimSpace(line[5:])
		fields, _, _ = strings.Cut(fields, "   ")
		want, err := hex.DecodeString(strings.ReplaceAll(fields, " ", ""))
		must(t, err)
		if !bytes.Equal(got[at:at+len(want)], want) {
			t.Errorf("offset %d is % x, docs/FORMAT.md says % x", at, got[at:at+len(want)], want)
		}
		clear(got[at : at+len(want)])
	}
	if !bytes.Equal(got[copyAt:copyAt+headerUsed], example(t)[:headerUsed]) {
		t.Error("the header does not stand there twice")
	}
	clear(got[copyAt : copyAt+headerUsed])
	if n := len(got) - bytes.Count(got, []byte{0}); n > 0 {
		t.Errorf("%d bytes more than docs/FORMAT.md says", n)
	}
}

// Each flipped bit of a header is damage that the copy repairs. Never is it a wrong key.
func TestHeader_Damage(t *testing.T) {
	good := example(t)
	want, err := decodeHeader(good)
	must(t, err)
	want.at = copyAt
	for bit := range 8 * headerUsed {
		b := bytes.Clone(good[:headerSize])
		b[bit/8] ^= 1 << (bit % 8)
		if got, err := decodeHeader(b); got != want || err != nil {
			t.Fatalf("bit %d: %+v, %v", bit, got, err)
		}
		if _, err := decodeCopy(b); !errors.Is(err, errDamaged) {
			t.Fatalf("bit %d without the copy: %v", bit, err)
		}
	}
}

func TestHeader_WhatElse(t *testing.T) {
	good := example(t)[:headerSize]
	newer := bytes.Clone(good)
	newer[8]++
	castagnoliAt(newer, 12)
	flags := bytes.Clone(good)
	flags[16] = 2
	castagnoliAt(flags, 84)
	both := bytes.Clone(good)
	both[30]++
	both[copyAt+30]++
	for _, tt := range []struct {
		what string
		b    []byte
		want error
	}{
		{"empty", nil, errDamaged},
		{"zeros", make([]byte, 100), errDamaged},
		{"a page of zeros", make([]byte, headerSize), errDamaged},
		{"the beginning of the magic", good[:5], errDamaged},
		{"a header that was cut", good[:70], errDamaged},
		{"both copies damaged", both, errDamaged},
		{"garbage of a crash", bytes.Repeat([]byte{7}, headerSize), errDamaged},
		{"a newer version", newer, ErrTooNew},
		{"a flag of the future", flags, ErrTooNew},
		{"a line", []byte("shale 1 MANIFEST-000001 4096 0badc0de\n"), ErrNotEncrypted},
		{"a line of JSON", []byte(`{"id":"a"}` + "\n"), ErrNotEncrypted},
		{"a short file", []byte("x"), ErrNotEncrypted},
		{"a header that was cut, without its first sector", append(make([]byte, 512), good[512:copyAt+50]...), errDamaged},
		{"a header that was cut, with garbage", bytes.Repeat([]byte{0x7f, 0x80, 7}, 100), errDamaged},
		{"a log", append([]byte("shaleWAL"), make([]byte, headerSize)...), ErrNotEncrypted},
	} {
		if _, err := decodeHeader(tt.b); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.what, err, tt.want)
		}
	}
}

// castagnoliAt puts the checksum of the bytes before offset at there.
func castagnoliAt(b []byte, at int) {
	sum := crc32.Checksum(b[:at], castagnoli)
	for i := range 4 {
		b[at+i] = byte(sum >> (8 * i))
	}
}

func FuzzHeader(f *testing.F) {
	f.Add(example(f))
	f.Add([]byte(vfs.EncryptedMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHeader(b[:min(len(b), headerSize)])
		if err != nil {
			return
		}
		again, err := decodeHeader(h.page())
		if again != h || err != nil {
			t.Fatalf("%+v became %+v, %v", h, again, err)
		}
	})
}

func TestReadKeys(t *testing.T) {
	hex64 := strings.Repeat("0a", 32)
	keys, err := ReadKeys(strings.NewReader("# of October\n1 " + hex64 + "\n\n 20\t" + strings.Repeat("FF", 32) + "\r\n"))
	if err != nil || len(keys) != 2 || keys[0].ID != 1 || keys.newest().ID != 20 || !bytes.Equal(keys[1].Secret, bytes.Repeat([]byte{255}, 32)) {
		t.Fatalf("%v, %v", keys, err)
	}
	for text, want := range map[string]string{
		"":                                    "no keys",
		"1":                                   "line 1",
		"1 xyz":                               "line 1",
		"\n-1 " + hex64:                       "line 2",
		"4294967296 " + hex64:                 "line 1",
		"1 " + hex64 + " 2":                   "line 1",
		"1 0a0a":                              "key 1 has 2 bytes, want 32",
		"3 " + hex64 + "\n3 " + hex64:         "key 3 is given twice",
		"1 " + strings.Repeat("0a", 70<<10/2): "read keys",
	} {
		_, err := ReadKeys(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "0a0a") {
			t.Errorf("%.30q: %v, want %q, and none of the secret", text, err, want)
		}
	}
	if _, err := New(vfs.NewMem(), Keys{{ID: 1, Secret: []byte("short")}}); err == nil {
		t.Error("New takes a short key")
	}
}

func TestMain(m *testing.M) { testenv.Main(m) }
