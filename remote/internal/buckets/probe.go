package buckets

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/object"
)

// Probe is the only proof that a bucket keeps its promises, and it can't prove all of them. What it
// tries are the promises whose breach would lose writes without a word.

// Errors of Probe: see remote.
var (
	ErrIgnoresConditions = errors.New("the bucket ignores conditions: create-if-absent (If-None-Match: *) replaced an object; use a server that supports it")
	ErrIgnoresChecksums  = errors.New("the bucket ignores checksums: it took an object with a wrong crc32c; use a server that checks them")
	ErrInconsistent      = errors.New("the bucket is not consistent: a call does not see what another one did; use a server with strong consistency")
)

// Probe makes the calls of remote.Probe. Without races it only tries checksums, conditions and deletion, in
// some fifteen requests: that is enough for a directory that is in the bucket already.
func Probe(ctx context.Context, b bucket.Bucket, races bool) (err error) {
	p := probe{ctx: ctx, b: b}
	// With the two lowest bits at 0, the three names differ in their last digit only. So they share
	// a prefix, and follow each other in lists.
	if err := p.begin(RandomNumber() &^ 3); err != nil {
		return fmt.Errorf("remote: probe: %w", err)
	}
	// checksums comes first and leaves nothing behind. conditions makes the object that the later
	// ones read, list and delete.
	steps := []func() error{p.checksums, p.conditions, p.race, p.reads, p.lists, p.deletion}
	made := p.names[:]
	if !races {
		steps, made = []func() error{p.checksums, p.conditions, p.deletion}, made[:1]
	}
	defer func() {
		if !p.stay {
			// The objects go even if ctx is done by now, because no other call would delete them.
			var deletes errgroup.Group
			for _, name := range made {
				deletes.Go(func() error { return b.Delete(context.WithoutCancel(ctx), name) })
			}
			if derr := deletes.Wait(); err == nil {
				err = derr
			}
		}
		if err != nil {
			err = fmt.Errorf("remote: probe: %w", err)
		}
	}()
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// RandomNumber returns a random number, so that probes at the same time have different names.
func RandomNumber() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.LittleEndian.Uint64(b[:])
}

// A probe is one call of Probe. It asks for what a store relies on and servers have been found to break, in the order in
// which a failure makes the later answers meaningless. It does so with small objects and few requests, because every Open
// waits for it.
type probe struct {
	ctx   context.Context
	b     bucket.Bucket
	names [3]string // in their order
	stay  bool      // the bucket refuses to delete, so these names are always the same
}

// begin chooses the names. It asks the bucket to delete an object that is not there, which shows whether the credentials
// have that right. Names are drawn, so that probes at the same time do not meet, unless nothing could remove the objects.
func (p *probe) begin(num uint64) error {
	err := p.b.Delete(p.ctx, object.ProbeName(num))
	if p.stay = Refused(err); p.stay {
		num, err = 0, nil
	}
	for i := range p.names {
		p.names[i] = object.ProbeName(num + uint64(i))
	}
	return err
}

// Refused reports whether err says that credentials do not have a right, or something else that no repetition changes.
func Refused(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}

// there reports whether an object is there. That is no error: an earlier call without the right to delete has left it.
func (p *probe) there(name string) (bool, error) {
	_, err := p.b.Stat(p.ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// first and second are the bodies that the probe writes. They differ in their bytes and lengths.
var first, second = []byte("the first object"), []byte("another thing")

// checksums puts bytes with a wrong checksum, in both ways in which a store puts objects: segments and steps if they are
// absent, tables in any case. Both must be refused, and nothing may be made or changed.
func (p *probe) checksums() error {
	name := p.names[0]
	// An earlier probe that could not delete has left the object. Then it must not change.
	before, err := p.there(name)
	if err != nil {
		return err
	}
	for _, absent := range []bool{true, false} {
		err := p.b.Put(p.ctx, name, bytes.NewReader(second), int64(len(second)), bucket.Checksum(second)+1, absent)
		switch there, serr := p.there(name); {
		case err == nil:
			return ErrIgnoresChecksums
		case before && absent && errors.Is(err, bucket.ErrExists):
		case !errors.Is(err, bucket.ErrChecksum):
			return err
		case serr != nil:
			return serr
		case there && !before:
			return fmt.Errorf("%w (it said that it had not)", ErrIgnoresChecksums)
		}
	}
	if got, err := p.read(len(first)+len(second), 0); before && (err != nil || string(got) != string(first)) {
		return errors.Join(err, fmt.Errorf("%w (it said that it had not)", ErrIgnoresChecksums))
	}
	return nil
}

// conditions creates an object twice. The second call must be refused with ErrExists, and the object must keep the bytes of
// the first: on this alone rests that one writer owns a store.
func (p *probe) conditions() error {
	if err := bucket.PutObject(p.ctx, p.b, p.names[0], first, true); err != nil && !(p.stay && errors.Is(err, bucket.ErrExists)) {
		if errors.Is(err, bucket.ErrExists) {
			return fmt.Errorf("%w (an object is there that could not be seen: %w)", ErrInconsistent, err)
		}
		return err
	}
	err := bucket.PutObject(p.ctx, p.b, p.names[0], second, true)
	if err == nil {
		return ErrIgnoresConditions
	}
	if !errors.Is(err, bucket.ErrExists) {
		return err
	}
	got, err := p.read(len(first)+len(second), 0)
	if err == nil && string(got) != string(first) {
		return fmt.Errorf("%w (it said that it had not)", ErrIgnoresConditions)
	}
	return err
}

// creators is how many calls create the same object at the same time.
const creators = 8

// race creates each of the other objects several times at the same time, with different bytes. One call succeeds, and the
// object has its bytes. A bucket that is replicated between sites may pass conditions, where the calls follow each other,
// and fail here.
func (p *probe) race() error {
	for _, name := range p.names[1:] {
		if there, err := p.there(name); err != nil || there {
			if err == nil && !p.stay {
				err = fmt.Errorf("%w (an object is there that nobody has made)", ErrInconsistent)
			}
			return err
		}
		// Each call notes in a place of its own whether it was told that it has created the object.
		var made [creators]bool
		creations, ctx := errgroup.WithContext(p.ctx)
		for i := range creators {
			creations.Go(func() error {
				err := bucket.PutObject(ctx, p.b, name, []byte{byte('a' + i)}, true)
				if made[i] = err == nil; errors.Is(err, bucket.ErrExists) {
					err = nil
				}
				return err
			})
		}
		if err := creations.Wait(); err != nil {
			return err
		}
		winners, last := 0, byte(0)
		for i, won := range made {
			if won {
				winners, last = winners+1, byte('a'+i)
			}
		}
		if winners != 1 {
			return fmt.Errorf("%w (%d of %d calls at the same time have created it)", ErrIgnoresConditions, winners, creators)
		}
		var got [1]byte
		if _, err := p.b.ReadAt(p.ctx, name, got[:], 0); err != nil && err != io.EOF {
			return err
		}
		if got[0] != last {
			return fmt.Errorf("%w (of several calls at the same time another one has created it than was told so)", ErrIgnoresConditions)
		}
	}
	return nil
}

// reads reads the object in the three ways in which a store does: a range in the middle, the last bytes, and more bytes than
// there are. Then it looks at the description, whose checksum is the one that was stated.
func (p *probe) reads() error {
	for _, r := range []struct {
		n    int
		off  int64
		want []byte
	}{
		{len(first), 0, first},
		{4, 3, first[3:7]},
		{6, -1, first[len(first)-6:]},
		// More of the last bytes than there are is the whole object. Tails of small tables are read
		// like this.
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
	info, err := p.b.Stat(p.ctx, p.names[0])
	if want := (bucket.Info{Name: p.names[0], Size: int64(len(first)), CRC32C: bucket.Checksum(first)}); err == nil && info != want {
		return fmt.Errorf("%w (it describes an object as %+v, want %+v)", ErrInconsistent, info, want)
	}
	return err
}

// read returns the bytes that ReadAt reads. The end of the object is no error here.
func (p *probe) read(n int, off int64) ([]byte, error) {
	buf := make([]byte, n)
	n, err := p.b.ReadAt(p.ctx, p.names[0], buf, off)
	if err == io.EOF {
		err = nil
	}
	return buf[:n], err
}

// lists looks for the objects in lists that must and must not have them, and have them in order. The newest step, the end of
// the list of segments and the pins are all found by lists.
func (p *probe) lists() error {
	name := p.names[0]
	for _, l := range []struct {
		prefix, after string
		want          []string
	}{
		{name, "", p.names[:1]},
		{name, name, nil},
		{name[:len(name)-1], name[:len(name)-1], p.names[:]},
		{name[:len(name)-1], name, p.names[1:]},
		{name + "0", "", nil},
	} {
		var found []string
		for info, err := range p.b.List(p.ctx, l.prefix, l.after) {
			if err != nil {
				return err
			}
			if slices.Contains(p.names[:], info.Name) {
				found = append(found, info.Name)
			}
		}
		if !slices.Equal(found, l.want) {
			return fmt.Errorf("%w (its list of %q after %q has the objects %q, want %q)", ErrInconsistent, l.prefix, l.after, found, l.want)
		}
	}
	return nil
}

// deletion deletes an object twice and looks for it. The second call succeeds too, so that a collection can be repeated.
func (p *probe) deletion() error {
	if p.stay {
		return nil
	}
	for range 2 {
		if err := p.b.Delete(p.ctx, p.names[0]); err != nil {
			return err
		}
	}
	there, err := p.there(p.names[0])
	if there {
		err = fmt.Errorf("%w (a deleted object is there)", ErrInconsistent)
	}
	if err != nil {
		return err
	}
	for info, err := range p.b.List(p.ctx, p.names[0], "") {
		if err != nil {
			return err
		}
		return fmt.Errorf("%w (its list has %s, which was deleted)", ErrInconsistent, info.Name)
	}
	return nil
}
