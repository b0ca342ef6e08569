package remote

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"sync"
)

// A memBucket keeps objects in memory.
type memBucket struct {
	mu      sync.RWMutex // protects the fields; never held during a read of a body
	names   []string     // sorted
	objects map[string]memObject
}

// A memObject is immutable, so readers need the lock only to find it.
type memObject struct {
	data []byte
	sum  uint32
}

// NewMem returns an empty bucket in memory, for tests. Nothing of it survives the process.
func NewMem() Bucket {
	return &memBucket{objects: make(map[string]memObject)}
}

// Put reads the body before it takes the lock, so a slow body delays no other call.
func (b *memBucket) Put(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error {
	if err := begin(ctx, name); err != nil {
		return callError("put", name, err)
	}
	data, err := readBody(body, size, crc32c)
	if err == nil {
		err = b.install(name, memObject{data, crc32c}, absent)
	}
	return callError("put", name, err)
}

// readBody returns a copy of the first size bytes of body, and checks them.
func readBody(body io.ReaderAt, size int64, crc32c uint32) ([]byte, error) {
	if size < 0 {
		return nil, fmt.Errorf("size %d", size)
	}
	// The buffer grows with the bytes that come, because the size may be wrong.
	var data bytes.Buffer
	n, err := io.Copy(&data, io.NewSectionReader(body, 0, size))
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	return data.Bytes(), checkSum(Checksum(data.Bytes()), crc32c)
}

// checkSum returns an error that wraps ErrChecksum if a body has another checksum than stated.
func checkSum(sum, stated uint32) error {
	if sum != stated {
		return fmt.Errorf("%w: the body has crc32c %08x, %08x was stated", ErrChecksum, sum, stated)
	}
	return nil
}

// install gives an object its name.
func (b *memBucket) install(name string, o memObject, absent bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	i, there := slices.BinarySearch(b.names, name)
	if there && absent {
		return ErrExists
	}
	if !there {
		b.names = slices.Insert(b.names, i, name)
	}
	b.objects[name] = o
	return nil
}

func (b *memBucket) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	o, err := b.find(ctx, name)
	if err != nil {
		return 0, callError("read", name, err)
	}
	from, length := window(int64(len(o.data)), off, len(p))
	if length < int64(len(p)) {
		err = io.EOF
	}
	if length == 0 {
		return 0, err
	}
	return copy(p, o.data[from:from+length]), err
}

func (b *memBucket) Stat(ctx context.Context, name string) (Info, error) {
	o, err := b.find(ctx, name)
	if err != nil {
		return Info{}, callError("stat", name, err)
	}
	return Info{Name: name, Size: int64(len(o.data)), CRC32C: o.sum}, nil
}

// find returns the object with a name, or fs.ErrNotExist.
func (b *memBucket) find(ctx context.Context, name string) (memObject, error) {
	if err := begin(ctx, name); err != nil {
		return memObject{}, err
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	o, there := b.objects[name]
	if !there {
		return o, fs.ErrNotExist
	}
	return o, nil
}

// List takes the lock for each object anew, so the caller may use the bucket in the loop.
func (b *memBucket) List(ctx context.Context, prefix, after string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		last := after
		for {
			if err := ctx.Err(); err != nil {
				yield(Info{}, callError("list", prefix, err))
				return
			}
			info, there := b.next(prefix, last)
			if !there || !yield(info, nil) {
				return
			}
			last = info.Name
		}
	}
}

// next returns the first object after a name that begins with prefix.
func (b *memBucket) next(prefix, after string) (Info, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	// No name lies between after and after+"\x00".
	i, _ := slices.BinarySearch(b.names, max(prefix, after+"\x00"))
	if i == len(b.names) || !strings.HasPrefix(b.names[i], prefix) {
		return Info{}, false
	}
	name := b.names[i]
	return Info{Name: name, Size: int64(len(b.objects[name].data))}, true
}

func (b *memBucket) Delete(ctx context.Context, name string) error {
	if err := begin(ctx, name); err != nil {
		return callError("delete", name, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i, there := slices.BinarySearch(b.names, name); there {
		b.names = slices.Delete(b.names, i, i+1)
		delete(b.objects, name)
	}
	return nil
}
