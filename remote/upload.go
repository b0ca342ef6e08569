package remote

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/tablefs"
	"github.com/shaledb/shale/sstable"
	"github.com/shaledb/shale/vfs"
	"golang.org/x/sync/errgroup"
)

// How tables and sidecars come into the bucket: each by one PUT, with a checksum that was computed
// when the file was written, and a look at what has arrived.

// upload puts those tables and sidecars into the bucket that it lacks, several at a time. before are
// the tables that it has. After an error it begins no more, but what is on its way arrives, and the next call need not
// put it again. Requires: publish.mu.
func (s *Store) upload(ctx context.Context, b Bucket, before *manifest.Version, added []manifest.Added) (done transfer, err error) {
	todo := s.missing(before, added)
	var mu sync.Mutex // protects the result and publish.uploaded
	uploads, failed := errgroup.WithContext(ctx)
	uploads.SetLimit(s.opts.Uploads)
	for _, f := range todo {
		uploads.Go(func() error {
			if failed.Err() != nil {
				return nil // Wait returns the error of the upload that has failed
			}
			sent, err := s.put(ctx, b, f) // the caller's context: an error of another upload does not end this one
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				return err
			}
			s.publish.uploaded[f.Num] = true
			if sent {
				done.objects++
				done.bytes += f.Size
			}
			return nil
		})
	}
	if err := cmp.Or(uploads.Wait(), ctx.Err()); err != nil {
		return done, fmt.Errorf("remote: publish: %w", err)
	}
	return done, nil
}

// missing returns the files that the bucket lacks: those that no step names and that this process has not put yet. A table
// that has only moved to another level is there. Requires: publish.mu.
// A file that was uploaded before a failed attempt is remembered in uploaded until a step names it.
func (s *Store) missing(before *manifest.Version, added []manifest.Added) (todo []tablefs.File) {
	p := &s.publish
	if p.uploaded == nil {
		p.uploaded = make(map[uint64]bool)
	}
	had := tablefs.NumsOf(before)
	for _, a := range added {
		for f := range tablefs.FilesOfTable(a.Table) {
			if !had[f.Num] && !p.uploaded[f.Num] {
				todo = append(todo, f)
			}
		}
	}
	return todo
}

// put puts one file into the bucket, unless an earlier process has done so, and checks that the bucket has all of it: a step
// names only objects that were seen with the right size.
func (s *Store) put(ctx context.Context, b Bucket, u tablefs.File) (sent bool, err error) {
	f, err := s.fs.Open(filepath.Join(s.dir, u.LocalName()))
	if err != nil {
		return false, local(err)
	}
	defer f.Close() // only read: nothing to lose
	size, err := f.Size()
	if err == nil && size != u.Size {
		err = base.Corruption(u.LocalName(), -1, "file", fmt.Errorf("%d bytes, the manifest says %d", size, u.Size))
	}
	if err != nil {
		return false, local(err)
	}
	// For a table the sum comes from the manifest and not from the file. So the bucket refuses a
	// table that has changed on the local disk since it was written.
	sum, err := u.FileSum(ctx, f)
	if err != nil {
		return false, local(fmt.Errorf("read %s: %w", u.LocalName(), err))
	}
	if there, err := s.isThere(ctx, b, u, f, sum); err != nil || there {
		return false, err
	}
	// A PUT that arrives late makes the same object again, because no two files get the same
	// number. At worst it leaves an object that nothing names.
	if err := b.Put(ctx, u.Name(), f, size, sum, false); err != nil {
		return false, s.putError(ctx, u, f, sum, err)
	}
	info, err := b.Stat(ctx, u.Name())
	if err == nil && (info.Size != size || info.CRC32C != sum) {
		err = fmt.Errorf("%w (%s was PUT with %d bytes and crc32c %08x, and has %d and %08x)",
			ErrInconsistent, u.Name(), size, sum, info.Size, info.CRC32C)
	}
	return true, err
}

// sameEnd is how many bytes at the ends of two files are compared. The footer of a table stands there, and the end of its
// properties, which is the session that has written it.
const sameEnd = 4096

// isThere reports whether an earlier process of this directory has put a file into the bucket. Files of this epoch were
// made by this process, which remembers its uploads.
//
// The number alone does not say that the object is this file. A program that opened the store without its bucket may
// have lost the file in a crash, and given its number out again, or this directory may be a copy of the one that was
// uploaded. The size and the crc32c do not say it either: files end their parts with checksums of these, so the crc32c
// of the whole depends on little more than the lengths. The ends of the files say it. A sidecar ends with a checksum of
// its contents. A table has the random number of its session before the footer, and a session gives a number out
// once. A table without a session, of an earlier program, is put again.
func (s *Store) isThere(ctx context.Context, b Bucket, u tablefs.File, f vfs.File, sum uint32) (bool, error) {
	if u.Num>>object.EpochShift >= s.epoch {
		return false, nil
	}
	info, err := b.Stat(ctx, u.Name())
	if err != nil || info.Size != u.Size || info.CRC32C != sum {
		return false, bucket.IgnoreAbsence(err)
	}
	if u.Kind == object.KindTable {
		if session, err := sstable.Session(f, u.Size); err != nil || session == 0 {
			return false, nil // if the table is damaged, its PUT says so
		}
	}
	ours, theirs := make([]byte, min(u.Size, sameEnd)), make([]byte, min(u.Size, sameEnd))
	if n, err := f.ReadAt(ours, u.Size-int64(len(ours))); n < len(ours) {
		return false, local(bucket.EndedEarly(err))
	}
	_, err = b.ReadAt(ctx, u.Name(), theirs, -1)
	return err == nil && bytes.Equal(ours, theirs), bucket.IgnoreAbsence(err)
}

// putError finds out whether the local file is to blame for a wrong checksum. If so, the error is local, and names the file:
// the bucket did what it should, and to try again is of no use before the file is whole.
func (s *Store) putError(ctx context.Context, u tablefs.File, f io.ReaderAt, sum uint32, err error) error {
	if !errors.Is(err, ErrChecksum) {
		return err
	}
	if now, rerr := bucket.SumOf(ctx, f, nil, 0, 0, u.Size); rerr == nil && now != sum {
		return local(base.Corruption(u.LocalName(), -1, "file",
			fmt.Errorf("crc32c %08x, it was written with %08x: run Verify, and repair the local store", now, sum)))
	}
	return err
}
