package remote

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"sync"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
)

// An upload is one file of the store that goes to the bucket.
type upload struct {
	num  uint64
	name string // of the object
	file string // in the directory
	size int64  // bytes, as the manifest states it
	// sum returns the crc32c of the file.
	sum func(f vfs.File) (uint32, error)
}

// tableFooter is the length of the footer of a table in bytes (docs/FORMAT.md, section 4).
const tableFooter = 108

// upload puts those tables and sidecars into the bucket that it lacks, several at a time. before are
// the tables that it has. Requires: publish.mu.
func (s *Store) upload(ctx context.Context, before *manifest.Version, added []manifest.Added) (done transfer, err error) {
	todo := s.missing(before, added)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		mu sync.Mutex // protects the results and publish.uploaded
		wg sync.WaitGroup
	)
	room := make(chan struct{}, s.opts.Uploads)
	for _, u := range todo {
		room <- struct{}{}
		if ctx.Err() != nil {
			<-room
			break
		}
		wg.Go(func() {
			defer func() { <-room }()
			perr := s.put(ctx, u)
			mu.Lock()
			defer mu.Unlock()
			if perr != nil {
				if err == nil {
					err = perr
				}
				cancel()
				return
			}
			s.publish.uploaded[u.num] = true
			done.objects++
			done.bytes += u.size
		})
	}
	wg.Wait()
	if err == nil {
		err = ctx.Err() // that of the caller, which has ended the loop
	}
	if err != nil {
		return done, fmt.Errorf("remote: publish: %w", err)
	}
	return done, nil
}

// missing returns the files that the bucket lacks. Requires: publish.mu.
func (s *Store) missing(before *manifest.Version, added []manifest.Added) (todo []upload) {
	p := &s.publish
	if p.uploaded == nil {
		p.uploaded = make(map[uint64]bool)
	}
	had := make(map[base.FileNum]bool)
	for t := range before.Tables() {
		had[t.Num] = true
		if t.Sidecar != nil {
			had[t.Sidecar.Num] = true
		}
	}
	add := func(u upload) {
		if !had[base.FileNum(u.num)] && !p.uploaded[u.num] {
			todo = append(todo, u)
		}
	}
	for _, a := range added {
		t := a.Table
		add(upload{uint64(t.Num), TableName(uint64(t.Num)), base.TableName(t.Num), t.Size, func(f vfs.File) (uint32, error) {
			return tableSum(f, t)
		}})
		if b := t.Sidecar; b != nil {
			add(upload{uint64(b.Num), FilterName(uint64(b.Num)), base.FilterName(b.Num), b.Size, func(f vfs.File) (uint32, error) {
				return fileSum(f, 0, 0, b.Size)
			}})
		}
	}
	return todo
}

// tableSum returns the crc32c of a table's file. The manifest has that of all bytes before the
// footer, since they were written. So damage on the local disk is noticed by the bucket, and the
// table need not be read twice.
func tableSum(f vfs.File, t *manifest.Table) (uint32, error) {
	if t.Size < tableFooter {
		return 0, fmt.Errorf("table of %d bytes", t.Size)
	}
	return fileSum(f, t.Checksum, t.Size-tableFooter, t.Size)
}

// fileSum returns the crc32c of the first to bytes of a file. sum is that of the first from bytes.
func fileSum(f vfs.File, sum uint32, from, to int64) (uint32, error) {
	buf := make([]byte, min(to-from, 256<<10))
	for from < to {
		buf = buf[:min(int64(len(buf)), to-from)]
		n, err := f.ReadAt(buf, from)
		if n < len(buf) {
			return 0, early(err)
		}
		sum = crc32.Update(sum, castagnoli, buf)
		from += int64(n)
	}
	return sum, nil
}

// put puts one file into the bucket, and looks whether it is there as a whole: a step names only
// objects that were seen with the right size.
func (s *Store) put(ctx context.Context, u upload) error {
	f, err := s.fs.Open(filepath.Join(s.dir, u.file))
	if err != nil {
		return local(err)
	}
	defer f.Close() // only read: nothing to lose
	size, err := f.Size()
	if err == nil && size != u.size {
		err = base.Corruption(u.file, -1, "file", fmt.Errorf("%d bytes, the manifest says %d", size, u.size))
	}
	if err != nil {
		return local(err)
	}
	sum, err := u.sum(f)
	if err != nil {
		return local(fmt.Errorf("read %s: %w", u.file, err))
	}
	if err := s.bucket.Put(ctx, u.name, f, size, sum, false); err != nil {
		return s.putError(u, f, sum, err)
	}
	info, err := s.bucket.Stat(ctx, u.name)
	if err == nil && (info.Size != size || info.CRC32C != sum) {
		err = fmt.Errorf("%w (%s was PUT with %d bytes and crc32c %08x, and has %d and %08x)",
			ErrInconsistent, u.name, size, sum, info.Size, info.CRC32C)
	}
	return err
}

// putError finds out whether the local file is to blame for a wrong checksum.
func (s *Store) putError(u upload, f io.ReaderAt, sum uint32, err error) error {
	if !errors.Is(err, ErrChecksum) {
		return err
	}
	h := crc32.New(castagnoli)
	if _, rerr := io.Copy(h, io.NewSectionReader(f, 0, u.size)); rerr == nil && h.Sum32() != sum {
		return local(base.Corruption(u.file, -1, "file",
			fmt.Errorf("crc32c %08x, it was written with %08x: run Verify, and repair the local store", h.Sum32(), sum)))
	}
	return err
}
