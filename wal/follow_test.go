package wal

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A log that grows byte by byte, into zeros or into the remains of an older log, gives each record once, when it
// is whole. Follow then is where Read of the whole log ends.
func TestFollow_ByteByByte(t *testing.T) {
	testenv.SkipRace(t)
	mem := vfs.NewMem()
	ends, payloads := writeRanges(t, mem, []int{10, 500, 33 << 10, 20, 5})
	name := "d/" + base.LogName(9)
	f, err := mem.OpenReadWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, _ := f.Size()
	whole := make([]byte, size)
	if _, err := f.ReadAt(whole, 0); err != nil {
		t.Fatal(err)
	}
	for _, fill := range []byte{0, 0xa5} {
		grown := bytes.Repeat([]byte{fill}, len(whole))
		copy(grown, whole[:headerSize])
		var from Result
		next := 0
		follow := func(upTo int64) {
			t.Helper()
			if _, err := f.WriteAt(grown, 0); err != nil {
				t.Fatal(err)
			}
			res, err := Follow(mem, "d", 9, 7, FollowOptions{From: from, Known: -1}, func(payload []byte) error {
				if !bytes.Equal(payload, payloads[next]) {
					return fmt.Errorf("%d bytes, want record %d", len(payload), next)
				}
				next++
				return nil
			})
			if err != nil {
				t.Fatalf("with %d bytes: %v", upTo, err)
			}
			want := 0
			for want < len(payloads) && ends[want+1] <= upTo {
				want++
			}
			if next != want || res.Records != uint64(want) || res.Sealed && upTo < ends[len(ends)-1]-8 { // a seal ends with zeros
				t.Fatalf("with %d bytes: %d records, %+v; want %d", upTo, next, res, want)
			}
			from = res
		}
		for at := int64(headerSize); at < ends[len(ends)-1]; {
			step := int64(1)
			if at > ends[2]+200 && at < ends[3]-200 {
				step = 97 // inside the long record
			}
			to := min(at+step, ends[len(ends)-1])
			copy(grown[at:to], whole[at:to])
			at = to
			follow(at)
		}
		if !from.Sealed {
			t.Error("the seal was not met")
		}
		res, err := Read(mem, "d", 9, 7, ReadOptions{Known: -1}, func([]byte) error { return nil })
		if err != nil || res.Length != from.Length || res.LastSeq != from.LastSeq || res.Records != from.Records {
			t.Errorf("Follow has come to %+v, Read to %+v, %v", from, res, err)
		}
	}
}

// Where the length is known, or the end is to be judged, damage is an error.
func TestFollow_Damage(t *testing.T) {
	mem := vfs.NewMem()
	ends, _ := writeRanges(t, mem, []int{10, 500, 300})
	f, err := mem.OpenReadWrite("d/" + base.LogName(9))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	follow := func(o FollowOptions) (Result, error) {
		return Follow(mem, "d", 9, 7, o, func([]byte) error { return nil })
	}
	first, err := follow(FollowOptions{Known: ends[1]})
	if err != nil || first.Length != ends[1] {
		t.Fatalf("%+v, %v", first, err)
	}
	b := []byte{0}
	if _, err := f.ReadAt(b, ends[1]+100); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b, ends[1]+100); err != nil {
		t.Fatal(err)
	}
	for what, o := range map[string]FollowOptions{
		"known":  {From: first, Known: ends[len(ends)-1]},
		"judged": {From: first, Known: -1, Judge: true},
	} {
		res, err := follow(o)
		var damage *base.CorruptionError
		if !errors.As(err, &damage) || damage.Offset < ends[1] || res.Length != ends[1] {
			t.Errorf("%s: %+v, %v", what, res, err)
		}
	}
	if res, err := follow(FollowOptions{From: first, Known: -1}); err != nil || res.Length != ends[1] || !res.Torn {
		t.Errorf("for now: %+v, %v", res, err)
	}
	stop := errors.New("stop")
	if res, err := Follow(mem, "d", 9, 7, FollowOptions{Known: -1}, func([]byte) error { return stop }); err != stop || res.Length != headerSize {
		t.Errorf("fn's error: %+v, %v", res, err)
	}
}

// A log is overwritten in place while it is followed, by one of the same number and store, with records in the same
// places: the header first, and then the rest, as programs copy. No record of the other log is passed on, and Follow and
// Read say that the file is another log now. So does Follow if that has happened before.
func TestFollow_Overwritten(t *testing.T) {
	image := func(session uint64, what string) []byte {
		mem := vfs.NewMem()
		w := mustCreate(t, Header{Num: 7, StoreID: testStore, Session: session}, Options{FS: mem})
		for i := range 3000 {
			mustAppend(t, w, fmt.Sprintf("%s %d", what, 1000+i), base.Seq(i+1))
		}
		mustClose(t, w)
		return readAll(t, mem, 7)
	}
	old, other := image(1, "old"), image(2, "new")
	if len(old) != len(other) {
		t.Fatal("the logs are not alike")
	}
	for at := int64(1); ; at++ {
		for _, follow := range []bool{true, false} {
			fsys := fileSystem(old)
			disk := faultfs.New(fsys, nil)
			var from Result
			read := func(fn func([]byte) error) (err error) {
				if follow {
					from, err = Follow(disk, "", 7, testStore, FollowOptions{From: from, Known: -1}, fn)
				} else {
					_, err = Read(disk, "", 7, testStore, ReadOptions{Known: -1, Shared: true}, fn)
				}
				return err
			}
			done := false
			disk.Inject(func(op vfs.Op, _ string, n int64) error {
				if op == vfs.OpRead && n == at {
					done = true
					f, err := fsys.OpenReadWrite(base.LogName(7))
					if err != nil {
						return err
					}
					_, err = f.WriteAt(other, 0)
					return errors.Join(err, f.Close())
				}
				return nil
			})
			var got []byte
			err := read(func(payload []byte) error {
				got = append(got, payload...)
				return nil
			})
			disk.Inject(nil)
			switch {
			case done && at > 4 && !errors.Is(err, ErrAnother):
				t.Fatalf("overwritten before operation %d: %v", at, err)
			case bytes.Contains(got, []byte("new")) && bytes.Contains(got, []byte("old")), err != nil && bytes.Contains(got, []byte("new")):
				t.Fatalf("overwritten before operation %d: records of both logs, %v", at, err)
			case !done && at > 4:
				if err != nil {
					t.Fatal(err)
				}
				fsys = fileSystem(other)
				disk = faultfs.New(fsys, nil)
				if err := read(func([]byte) error { return errors.New("a record") }); follow && !errors.Is(err, ErrAnother) {
					t.Errorf("Follow in another log: %v", err)
				} else if follow {
					return
				}
			}
		}
	}
}
