package cluster

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/crypt"
)

// A group whose members encrypt what they write, each with keys of its own, starts, restarts, and sends and installs
// snapshots. Nothing that it was given is readable on a disk.
func TestGroup_Encrypted(t *testing.T) {
	t.Parallel()
	disks := map[string]*vfs.Mem{}
	keysOf := func(id string, number uint32) crypt.Keys {
		keys := crypt.Keys{{ID: 1, Secret: bytes.Repeat([]byte(id), 16)}}
		for n := uint32(2); n <= number; n++ {
			keys = append(keys, crypt.Key{ID: n, Secret: bytes.Repeat([]byte{byte(n)}, 32)})
		}
		return keys
	}
	encrypt := func(o *Options, number uint32) *crypt.FS {
		if disks[o.ID] == nil {
			disks[o.ID] = o.FS.(*vfs.Mem)
		}
		fs, err := crypt.New(disks[o.ID], keysOf(o.ID, number))
		mustNil(t, err)
		o.FS = fs
		return fs
	}
	g := newGroup(t, 3, func(o *Options) {
		encrypt(o, 1)
		o.Forward = true
		o.Raft = func(c *raft.Config) {
			fastRaft(c)
			c.TrailingLogs = 0 // who joins gets a snapshot
		}
	})
	const secret = "nobody may read this"
	written := 0
	write := func(n int) {
		t.Helper()
		for range n {
			g.led("a write", func() error {
				return g.members[0].Put(short(t), fmt.Appendf(nil, "%s %d", secret, written), []byte(secret))
			})
			written++
		}
	}
	check := func(when string) {
		t.Helper()
		g.agree()
		for _, m := range g.members {
			n := 0
			for _, err := range m.Local().Scan(shale.Prefix(secret)) {
				mustNil(t, err)
				n++
			}
			if n != written {
				t.Errorf("%s: %s has %d keys, want %d", when, m.opts.ID, n, written)
			}
		}
	}
	write(20)
	check("after writes")

	restarted := g.members[1]
	mustNil(t, restarted.Close())
	fs := encrypt(&restarted.opts, 2)
	walk(t, disks["m1"], restarted.dir, func(dir string, _ []string) { mustNil(t, fs.Rekey(dir)) })
	fs, err := crypt.New(disks["m1"], keysOf("m1", 2)[1:]) // without the older key
	mustNil(t, err)
	restarted.opts.FS = fs
	g.open(restarted)
	g.waitVoters(3)
	write(20)
	check("after a restart with a new key")

	for _, m := range g.members {
		mustNil(t, m.Snapshot(short(t)))
	}
	joined := g.add()
	g.waitVoters(4)
	if joined.state.current.Load().number < 2 {
		t.Error("the new member has not been sent a snapshot")
	}
	write(20)
	check("after a snapshot")

	for _, m := range g.members {
		mustNil(t, m.Close())
		m.Node = nil
	}
	for id, disk := range disks {
		files := 0
		walk(t, disk, "member", func(dir string, names []string) {
			for _, name := range names {
				f, err := disk.Open(filepath.Join(dir, name))
				mustNil(t, err)
				size, err := f.Size()
				mustNil(t, err)
				data := make([]byte, size)
				if _, err := f.ReadAt(data, 0); err != nil && err != io.EOF {
					t.Fatal(err)
				}
				mustNil(t, f.Close())
				if files++; bytes.Contains(data, []byte(secret)) {
					t.Errorf("%s of %s can be read in %s", secret, id, filepath.Join(dir, name))
				}
			}
		})
		if files < 5 {
			t.Errorf("%s has %d files", id, files)
		}
	}
}

// walk calls fn with a directory and the names of its files, and with those below it.
func walk(t *testing.T, disk *vfs.Mem, dir string, fn func(dir string, names []string)) {
	t.Helper()
	names, err := disk.List(dir)
	mustNil(t, err)
	var files []string
	for _, name := range names {
		switch info, err := disk.Stat(filepath.Join(dir, name)); {
		case err != nil: // removed meanwhile
		case info.IsDir:
			walk(t, disk, filepath.Join(dir, name), fn)
		default:
			files = append(files, name)
		}
	}
	fn(dir, files)
}
