package remote

import (
	"context"
	"errors"
	"hash/maphash"
	"io"
	"io/fs"
	"iter"
	"math/bits"
	"sort"
	"strings"

	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/buckets"
)

// An entry is an object in contents. Equal ones are one entry.
type entry struct {
	data  []byte
	sum   uint32
	name  string
	bytes uint64 // a hash of the bytes. Their crc32c does not tell them apart: it is the same for all objects that end with one
	id    uint64 // a hash of the name and the bytes
	shown uint64 // a hash of what a list shows: the name and the size
}

// A bucketState is all that a bucket has at one time. It never changes, and equal ones are one: a call that changes the
// bucket leads to other contents.
type bucketState struct {
	entries []*entry // in the order of their names
	sum     uint64   // of their ids

	// What was found out about it, at most once.
	checked bool
	err     error
	records []string
	pins    map[*Pin]error
}

// search returns the index of the first object whose name is not less than name.
func (c *bucketState) search(name string) int {
	return sort.Search(len(c.entries), func(i int) bool { return c.entries[i].name >= name })
}

// find returns the object with a name, or nil.
func (c *bucketState) find(name string) *entry {
	if i := c.search(name); i < len(c.entries) && c.entries[i].name == name {
		return c.entries[i]
	}
	return nil
}

// listed returns the objects whose names begin with prefix and are greater than after.
func (c *bucketState) listed(prefix, after string) []*entry {
	from := c.search(max(prefix, after+"\x00")) // no name lies between after and after+"\x00"
	to := from
	for to < len(c.entries) && strings.HasPrefix(c.entries[to].name, prefix) {
		to++
	}
	return c.entries[from:to]
}

// A stillBucket is a bucket that has what a bucketState has. It can only be read.
type stillBucket struct {
	Bucket
	c *bucketState
}

func (b stillBucket) find(name string) (*entry, error) {
	if o := b.c.find(name); o != nil {
		return o, nil
	}
	return nil, fs.ErrNotExist
}

func (b stillBucket) ReadAt(_ context.Context, name string, p []byte, off int64) (int, error) {
	o, err := b.find(name)
	if err != nil {
		return 0, err
	}
	return o.readAt(p, off)
}

func (b stillBucket) Stat(_ context.Context, name string) (Info, error) {
	o, err := b.find(name)
	if err != nil {
		return Info{}, err
	}
	return o.info(), nil
}

func (b stillBucket) List(_ context.Context, prefix, after string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for _, o := range b.c.listed(prefix, after) {
			if !yield(Info{Name: o.name, Size: int64(len(o.data))}, nil) {
				return
			}
		}
	}
}

// mem returns a bucket with these objects.
func (c *bucketState) mem() Bucket { return stillBucket{c: c} }

// readAt reads from the object as Bucket.ReadAt does.
func (e *entry) readAt(p []byte, off int64) (int, error) {
	from, length := bucket.Window(int64(len(e.data)), off, len(p))
	if length == 0 {
		return 0, io.EOF
	}
	n := copy(p, e.data[from:from+length])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// info describes the object.
func (e *entry) info() Info { return Info{Name: e.name, Size: int64(len(e.data)), CRC32C: e.sum} }

// stores has all contents and entries that an exploration has met.

type stores struct {
	contents map[uint64]*bucketState
	entries  map[uint64]*entry
}

func newStores() *stores {
	return &stores{contents: make(map[uint64]*bucketState), entries: make(map[uint64]*entry)}
}

// of returns what is in a bucket.
func (s *stores) of(b Bucket) *bucketState {
	c := new(bucketState)
	for info, err := range b.List(ctxModel, "", "") {
		var data []byte
		if err == nil {
			data, err = ReadObject(ctxModel, b, info.Name, info.Size)
		}
		if err != nil {
			panic(err)
		}
		c.entries = append(c.entries, s.entry(info.Name, data, Checksum(data)))
		c.sum += c.entries[len(c.entries)-1].id
	}
	return s.same(c.sum, func() *bucketState { return c })
}

// entry returns the entry of an object.
func (s *stores) entry(name string, data []byte, sum uint32) *entry {
	shown := mix(hashOf(name), uint64(len(data)))
	bytes := hashOf(string(data))
	id := mix(shown, bytes)
	e := s.entries[id]
	if e == nil {
		e = &entry{data: data, sum: sum, name: name, bytes: bytes, id: id, shown: shown}
		s.entries[id] = e
	}
	return e
}

// same returns the contents with a sum, which it makes if they are new.
func (s *stores) same(sum uint64, create func() *bucketState) *bucketState {
	c := s.contents[sum]
	if c == nil {
		c = create()
		s.contents[sum] = c
	}
	return c
}

// with returns contents in which o has its name, or in which the object name is not there if o is nil.
func (s *stores) with(c *bucketState, name string, o *entry) *bucketState {
	sum := c.sum
	was := c.find(name)
	if was != nil {
		sum -= was.id
	}
	if o != nil {
		sum += o.id
	}
	if was == o {
		return c
	}
	return s.same(sum, func() *bucketState {
		i := c.search(name)
		rest := i
		if was != nil {
			rest++
		}
		next := &bucketState{sum: sum, entries: make([]*entry, 0, len(c.entries)+1)}
		next.entries = append(next.entries, c.entries[:i]...)
		if o != nil {
			next.entries = append(next.entries, o)
		}
		next.entries = append(next.entries, c.entries[rest:]...)
		return next
	})
}

var modelSeed = maphash.MakeSeed()

func hashOf(s string) uint64 { return maphash.String(modelSeed, s) }

// mix returns a hash of a hash and a value.
func mix(h, v uint64) uint64 {
	hi, lo := bits.Mul64(h^0x9e3779b97f4a7c15, v^0xbf58476d1ce4e5b9)
	return hi ^ lo ^ bits.RotateLeft64(h, 23) + v
}

// A call is what an actor asks of its bucket.
type call struct {
	method string // put, create, delete, read, stat, list, or next for one object of a list
	name   string // of the object, or the prefix of a list
	after  string // of a list
	object *entry // of a put and a create
	id     uint64 // a hash of these
	reach  *reach // who else changes what the call is about
}

func (k *call) String() string { return k.method + " " + k.name }

// writes reports whether the call may change the bucket.
func (k *call) writes() bool {
	return k.method == "put" || k.method == "create" || k.method == "delete"
}

// lists reports whether the call is about all objects whose names begin with its name.
func (k *call) lists() bool { return k.method == "list" || k.method == "next" }

// about reports whether the call is about the object with a name.
func (k *call) about(name string) bool {
	return k.name == name || k.lists() && strings.HasPrefix(name, k.name)
}

// An answer is what an actor gets.
type answer struct {
	err     error
	entries []*entry // of a list; at most one object of all other calls
}

// The keys of answers that have nothing to say but whether the call has succeeded.
const (
	keyDone = iota + 1
	keyExists
	keyLost
)

// errLost is the answer to a call whose answer was lost.
var errLost = errors.New("the answer was lost")

// ask makes a call that reads, and returns the answer and its key: calls with the same key have the same answer.
func (c *bucketState) ask(k *call) (a answer, key uint64) {
	switch k.method {
	case "list":
		a.entries = c.listed(k.name, k.after)
		for _, o := range a.entries {
			key = mix(key, o.shown)
		}
	case "next":
		if all := c.listed(k.name, k.after); len(all) > 0 {
			a.entries, key = all[:1], all[0].shown
		}
	default:
		if o := c.find(k.name); o != nil {
			a.entries, key = []*entry{o}, o.id
		}
	}
	return a, key
}

// apply makes a call that writes. It returns what is in the bucket then.
func (s *stores) apply(c *bucketState, k *call) (next *bucketState, a answer, key uint64) {
	if k.method == "create" && c.find(k.name) != nil {
		return c, answer{err: ErrExists}, keyExists
	}
	return s.with(c, k.name, k.object), answer{}, keyDone // a delete has no object
}

// A modelBucket stops its actor before each call, and hands the call to the explorer.
type modelBucket struct {
	r     *running
	yield func(*call) bool
}

// phaseMethod is the method of a call that only says what the actor goes on with: a hash of all that it remembers.
const phaseMethod = "phase"

// phase says that what an actor still does depends on nothing but what has this hash. Actors that differ only in the
// answers that have led there are one from then on.
func phase(b Bucket, hash uint64) {
	if r, ok := b.(*buckets.Retry); ok {
		if m, ok := r.Bucket.(*modelBucket); ok && !m.yield(&call{method: phaseMethod, id: hash}) {
			panic(errModelOver)
		}
	}
}

// errModelOver ends an actor that is not needed any more.
// diskFolder is the folder of what an actor has on its own disk. No fault happens there.
const diskFolder = "disk/"

var errModelOver = errors.New("the execution is over")

// ask waits for the answer to a call.
func (b *modelBucket) ask(k call) answer {
	if !b.yield(&k) {
		panic(errModelOver)
	}
	return b.r.answer
}

// one waits for the answer to a call about one object, and returns the object.
func (b *modelBucket) one(k call) (*entry, error) {
	a := b.ask(k)
	if len(a.entries) == 0 {
		return nil, bucket.CallError(k.method, k.name, fs.ErrNotExist)
	}
	return a.entries[0], nil
}

func (b *modelBucket) Put(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error {
	data, err := io.ReadAll(io.NewSectionReader(body, 0, size))
	if err = errors.Join(err, buckets.CheckSum(Checksum(data), crc32c)); err != nil {
		return err
	}
	k := call{method: "put", name: name, object: &entry{data: data, sum: crc32c, name: name}}
	if absent {
		k.method = "create"
	}
	return b.ask(k).err
}

func (b *modelBucket) Delete(ctx context.Context, name string) error {
	return b.ask(call{method: "delete", name: name}).err
}

func (b *modelBucket) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	o, err := b.one(call{method: "read", name: name})
	if err != nil {
		return 0, err
	}
	return o.readAt(p, off)
}

func (b *modelBucket) Stat(ctx context.Context, name string) (Info, error) {
	o, err := b.one(call{method: "stat", name: name})
	if err != nil {
		return Info{}, err
	}
	return o.info(), nil
}

func (b *modelBucket) List(ctx context.Context, prefix, after string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		method := "list"
		if b.r.of.slow {
			method = "next" // each object as it is when the caller gets it
		}
		after := after
		for {
			found := b.ask(call{method: method, name: prefix, after: after}).entries
			for _, o := range found {
				if !yield(Info{Name: o.name, Size: int64(len(o.data))}, nil) {
					return
				}
				after = o.name
			}
			if method == "list" || len(found) == 0 {
				return
			}
		}
	}
}
