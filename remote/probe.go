package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// Errors of Probe. Each names a promise that a store relies on and the bucket does not keep.
var (
	// ErrIgnoresConditions says that Put with absent replaced an object. Two writers could then both
	// take themselves for the owner of a store.
	ErrIgnoresConditions = errors.New("the bucket ignores conditions: create-if-absent (If-None-Match: *) replaced an object; use a server that supports it")

	// ErrIgnoresChecksums says that Put made an object of bytes that do not have the checksum
	// stated for them. Damage on the way would then be found only when the object is needed.
	ErrIgnoresChecksums = errors.New("the bucket ignores checksums: it took an object with a wrong crc32c; use a server that checks them")

	// ErrInconsistent says that a call did not see what another call had done, or returned other
	// bytes than asked for.
	ErrInconsistent = errors.New("the bucket is not consistent: a call does not see what another one did; use a server with strong consistency")
)

// Probe finds out whether a bucket keeps those promises of Bucket that servers are known to break.
// It makes an object with a random name that begins with "probe/", tries the calls on it, and
// deletes it. That takes some twenty requests. If the bucket is not fit for a store, the error wraps
// ErrIgnoresConditions, ErrIgnoresChecksums or ErrInconsistent. With any other error the bucket
// could not be used at all.
//
// It does not try races, large objects, or whether objects are durable: buckettest.Run does more.
func Probe(ctx context.Context, b Bucket) (err error) {
	p := probe{ctx: ctx, b: b, name: ProbeName(randomNumber())}
	defer func() {
		// The object goes even if ctx is done by now, because no other call would delete it.
		derr := b.Delete(context.WithoutCancel(ctx), p.name)
		if err == nil {
			err = derr
		}
		if err != nil {
			err = fmt.Errorf("remote: probe: %w", err)
		}
	}()
	for _, step := range []func() error{p.checksums, p.conditions, p.reads, p.lists, p.deletion} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// randomNumber returns a random number, so that probes at the same time have different names.
func randomNumber() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.LittleEndian.Uint64(b[:])
}

// A probe is one call of Probe.
type probe struct {
	ctx  context.Context
	b    Bucket
	name string
}

// first and second are the bodies that the probe writes. They differ in their bytes and lengths.
var first, second = []byte("the first object"), []byte("another thing")

// checksums puts bytes with a wrong checksum, in both ways in which a store puts objects.
func (p *probe) checksums() error {
	for _, absent := range []bool{true, false} {
		err := p.b.Put(p.ctx, p.name, bytes.NewReader(first), int64(len(first)), Checksum(first)+1, absent)
		if err == nil {
			return ErrIgnoresChecksums
		}
		if !errors.Is(err, ErrChecksum) {
			return err
		}
		if _, err := p.b.Stat(p.ctx, p.name); err == nil {
			return fmt.Errorf("%w (it said that it had not)", ErrIgnoresChecksums)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// conditions creates an object twice.
func (p *probe) conditions() error {
	if err := PutObject(p.ctx, p.b, p.name, first, true); err != nil {
		if errors.Is(err, ErrExists) {
			return fmt.Errorf("%w (an object is there that could not be seen: %w)", ErrInconsistent, err)
		}
		return err
	}
	err := PutObject(p.ctx, p.b, p.name, second, true)
	if err == nil {
		return ErrIgnoresConditions
	}
	if !errors.Is(err, ErrExists) {
		return err
	}
	got, err := p.read(len(first)+len(second), 0)
	if err == nil && string(got) != string(first) {
		return fmt.Errorf("%w (it said that it had not)", ErrIgnoresConditions)
	}
	return err
}

// reads reads the object in the three ways, and looks at its description.
func (p *probe) reads() error {
	for _, r := range []struct {
		n    int
		off  int64
		want []byte
	}{
		{len(first), 0, first},
		{4, 3, first[3:7]},
		{6, -1, first[len(first)-6:]},
		{len(first) + 9, -1, first},
		{8, int64(len(first)) - 3, first[len(first)-3:]},
	} {
		got, err := p.read(r.n, r.off)
		if err != nil {
			return err
		}
		if string(got) != string(r.want) {
			return fmt.Errorf("%w (%d bytes at offset %d are %q, want %q)", ErrInconsistent, r.n, r.off, got, r.want)
		}
	}
	info, err := p.b.Stat(p.ctx, p.name)
	if want := (Info{p.name, int64(len(first)), Checksum(first)}); err == nil && info != want {
		return fmt.Errorf("%w (it describes an object as %+v, want %+v)", ErrInconsistent, info, want)
	}
	return err
}

// read returns the bytes that ReadAt reads. The end of the object is no error here.
func (p *probe) read(n int, off int64) ([]byte, error) {
	buf := make([]byte, n)
	n, err := p.b.ReadAt(p.ctx, p.name, buf, off)
	if err == io.EOF {
		err = nil
	}
	return buf[:n], err
}

// lists looks for the object in lists that must and must not have it.
func (p *probe) lists() error {
	for _, l := range []struct {
		prefix, after string
		want          bool
	}{
		{p.name, "", true},
		{p.name, p.name, false},
		{p.name[:len(p.name)-1], p.name[:len(p.name)-1], true},
		{p.name + "0", "", false},
	} {
		found := false
		for info, err := range p.b.List(p.ctx, l.prefix, l.after) {
			if err != nil {
				return err
			}
			found = found || info.Name == p.name
		}
		if found != l.want {
			return fmt.Errorf("%w (its list of %q after %q has the object: %v, want %v)", ErrInconsistent, l.prefix, l.after, found, l.want)
		}
	}
	return nil
}

// deletion deletes the object twice and looks for it.
func (p *probe) deletion() error {
	for range 2 {
		if err := p.b.Delete(p.ctx, p.name); err != nil {
			return err
		}
	}
	_, err := p.b.Stat(p.ctx, p.name)
	if err == nil {
		return fmt.Errorf("%w (a deleted object is there)", ErrInconsistent)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for info, err := range p.b.List(p.ctx, p.name, "") {
		if err != nil {
			return err
		}
		return fmt.Errorf("%w (its list has %s, which was deleted)", ErrInconsistent, info.Name)
	}
	return nil
}
