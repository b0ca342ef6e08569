package tablefs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// TestRefetch_Gone: when the object of a table is gone, what was fetched of it is good, and is read on.
func TestRefetch_Gone(t *testing.T) {
	p := publishTables(t, 20_000, shale.Options{CompactionWorkers: -1})
	db := p.reader(p.files(nil, ""), shale.Options{CacheSize: -1, OnEvent: func(shale.Event) {}})
	_, err := db.Get(testKey(0))
	mustNil(t, err)
	for f := range FilesOf(p.version) {
		mustNil(t, p.bucket.Delete(t.Context(), f.Name()))
	}
	if _, err := db.Get(testKey(3000)); !errors.Is(err, ErrNoObject) {
		t.Errorf("what was not fetched: %v", err)
	}
	if _, err := db.Get(testKey(0)); err != nil {
		t.Errorf("what was fetched before: %v", err)
	}
}

// TestRefetch_CutOff: answers that end too early are no damage of the table, and nothing is fetched again for them.
func TestRefetch_CutOff(t *testing.T) {
	p := publishTables(t, 20_000, shale.Options{CompactionWorkers: -1})
	files := p.files(nil, "")
	db := p.reader(files, shale.Options{CacheSize: -1, OnEvent: func(shale.Event) {}})
	file, err := files.open("", FileOf(p.version.Levels[len(p.version.Levels)-1].Runs[0].Tables[0]).Object())
	mustNil(t, err)
	defer file.Close()
	lost := errors.New("lost")
	var calls atomic.Int32
	p.bucket.HookReads(func(string) error {
		calls.Add(1)
		return fmt.Errorf("the answer ends early: %w: %w", lost, io.ErrUnexpectedEOF)
	})
	_, err = db.Get(testKey(0))
	var damage *shale.CorruptionError
	if !errors.Is(err, lost) || errors.As(err, &damage) || calls.Load() != 1 {
		t.Errorf("Get: %v, after %d GETs", err, calls.Load())
	}
	s := file.(vfs.RemoteFile).Stream(1000)
	if _, err := s.ReadAt(make([]byte, 100), 0); !errors.Is(err, lost) || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a pass: %v", err)
	}
	mustNil(t, s.Close())
	if err := db.Verify(t.Context()); !errors.Is(err, lost) || errors.As(err, &damage) {
		t.Errorf("Verify: %v", err)
	}
}

// openFS counts the files that are open.
type openFS struct {
	vfs.FS
	open atomic.Int32
	all  atomic.Int32 // that were ever opened
}

type countedFile struct {
	vfs.File
	of *openFS
}

func (o *openFS) Open(name string) (vfs.File, error) {
	f, err := o.FS.Open(name)
	if err != nil {
		return nil, err
	}
	o.open.Add(1)
	o.all.Add(1)
	return &countedFile{f, o}, nil
}

func (f *countedFile) Close() error {
	f.of.open.Add(-1)
	return f.File.Close()
}

// TestRefetch_Tail: a program reads a damaged block again and again. The file of the tail stays as it is and open, and others read
// it meanwhile.
func TestRefetch_Tail(t *testing.T) {
	p := publishTables(t, 20_000, shale.Options{CompactionWorkers: -1})
	local := &openFS{FS: vfs.NewMem()}
	files := p.files(local, "cache")
	f := FileOf(p.version.Levels[len(p.version.Levels)-1].Runs[0].Tables[0])
	open, err := files.open("", f.Object())
	mustNil(t, err)
	file := open.(*objectFile)
	want := make([]byte, 100)
	_, err = file.ReadAt(want, file.at.Load()+1000)
	mustNil(t, err)
	read := func() {
		got := make([]byte, len(want))
		if _, err := file.ReadAt(got, file.at.Load()+1000); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the tail has changed: %v", err)
		}
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				mustNil(t, file.Refetch())
				read()
			}
		})
		wg.Go(func() {
			for range 2000 {
				read()
			}
		})
	}
	wg.Wait()
	if n := local.open.Load(); n > 8 {
		t.Errorf("%d files are open", n)
	}
	// A file that is damaged itself is written again.
	path := files.Tails.path(f.fileID)
	remotetest.ChangeFile(t, local, path, func(b []byte) []byte { return remotetest.Flipped(b, 8*(len(b)-int(f.Size-file.at.Load())+1000)) })
	for range 2 {
		read()
	}
	if n := local.open.Load(); n > 9 {
		t.Errorf("%d files are open", n)
	}
	mustNil(t, file.Close())
}
