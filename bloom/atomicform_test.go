package bloom

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/form"
)

// specAtomic returns whether a filter may have a hash, as docs/FORMAT.md says it.
func specAtomic(b []byte, h uint64) bool {
	lines := uint64(binary.LittleEndian.Uint32(b[len(b)-20:]))
	product := new(big.Int).Mul(new(big.Int).SetUint64(h), new(big.Int).SetUint64(lines))
	line := b[64*product.Rsh(product, 64).Uint64():][:64]
	p := h * 0x9e3779b97f4a7c15
	word, step := p>>61, 2*(p>>59&3)+1
	for i := range uint64(6) {
		bit := (word+i/2*step)%8*64 + p>>(53-6*i)&63
		if line[bit/8]>>(bit%8)&1 == 0 {
			return false
		}
	}
	return true
}

func TestFormat_AtomicAsDocumented(t *testing.T) {
	for _, keys := range []int{0, 2, 100} {
		f := atomicOf(keys, 10)
		hs := filtertest.RandomHashes(9, keys)
		f.AddMany(hs)
		b := filtertest.Marshal(t, f)
		for _, h := range append(filtertest.RandomHashes(1, 5000), hs...) {
			if got := f.MayContainHash(h); got != specAtomic(b, h) {
				t.Fatalf("%d keys: MayContainHash(%016x) = %v, as documented %v", keys, h, got, !got)
			}
		}
	}
}

// A filter in the caller's bytes sets the bits there that a filter in memory sets, and says
// in one byte that the checksum does not hold. Sealed, it has the bytes that the other one
// writes.
func TestOpenAtomicBlocked_WorksInBytes(t *testing.T) {
	hs := filtertest.RandomHashes(1, 300)
	f := atomicOf(300, 10)
	f.AddMany(hs[:100])
	b, err := f.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	before := bytes.Clone(b)
	opened, err := OpenAtomicBlocked(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hs {
		opened.MayContainHash(h)
	}
	if copied, err := opened.MarshalBinary(); err != nil || !bytes.Equal(b, before) || !bytes.Equal(copied, b) || !opened.Sealed() {
		t.Errorf("a filter that is only asked and written changes its bytes: %v", err)
	}
	for i, h := range hs[100:] {
		if i%2 == 0 {
			opened.AddHash(h)
			f.AddHash(h)
		} else if got, want := opened.CheckAndAddHash(h), f.CheckAndAddHash(h); got != want {
			t.Fatalf("CheckAndAddHash = %v, want %v", got, want)
		}
	}
	want, err := f.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	lines := len(b) - atomicTail
	trailer := bytes.Clone(before[lines:])
	trailer[8+3] = atomicLive
	if opened.Sealed() || !bytes.Equal(b[:lines], want[:lines]) || !bytes.Equal(b[lines:], trailer) {
		t.Error("a live filter has other bytes than the bits of its keys and the state")
	}
	live, err := OpenAtomicBlocked(ownCopy(b))
	if err != nil || live.Sealed() || live.Count() != 100 {
		t.Fatalf("a live form does not open: %v", err)
	}
	for _, h := range hs {
		if !live.MayContainHash(h) || !opened.MayContainHash(h) {
			t.Fatalf("%016x is denied", h)
		}
	}
	if written, err := opened.MarshalBinary(); err != nil || !bytes.Equal(written, want) {
		t.Errorf("the form of a live filter is not sealed: %v", err)
	}
	var copied AtomicBlocked
	if err := copied.UnmarshalBinary(b); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "seal") {
		t.Errorf("UnmarshalBinary of a live form = %v, want ErrDamaged", err)
	}
	for range 2 {
		if err := opened.Seal(); err != nil || !opened.Sealed() || !bytes.Equal(b, want) {
			t.Fatalf("Seal = %v; the bytes differ from those of a filter in memory", err)
		}
	}
	if err := copied.UnmarshalBinary(b); err != nil || copied.Count() != f.Count() || copied.Sealed() || copied.Seal() == nil {
		t.Errorf("UnmarshalBinary of a sealed form = %v, %d keys", err, copied.Count())
	}
	other := atomicOf(300, 10)
	other.AddMany(filtertest.RandomHashes(5, 50))
	if err := opened.Union(other); err != nil || opened.Sealed() || opened.Count() != f.Count()+50 {
		t.Errorf("Union with a sealed filter = %v: sealed %v, %d keys, want live, %d", err, opened.Sealed(), opened.Count(), f.Count()+50)
	}
}

// Two filters of the same bytes, as two processes have them, see each other's keys. Each of
// them makes the form live for itself, also if the other one has sealed it in between.
func TestOpenAtomicBlocked_Twice(t *testing.T) {
	b, err := atomicOf(1000, 10).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	one, other := Must(OpenAtomicBlocked(b)), Must(OpenAtomicBlocked(b))
	for i, h := range filtertest.RandomHashes(2, 500) {
		one.AddHash(h)
		if !other.MayContainHash(h) || !other.CheckAndAddHash(h) || one.Sealed() || other.Sealed() {
			t.Fatalf("key %d: one filter does not see what the other one does", i)
		}
		if err := other.Seal(); err != nil || !one.Sealed() {
			t.Fatalf("key %d: Seal = %v, sealed %v", i, err, one.Sealed())
		}
		if _, err := OpenAtomicBlocked(b); err != nil {
			t.Fatalf("key %d: after Seal: %v", i, err)
		}
	}
}

// What AppendBinary holds has every key whose addition has returned before, while keys are
// added.
func TestAtomicBlocked_SnapshotWhileAdding(t *testing.T) {
	const n = 20000
	hs := filtertest.RandomHashes(3, n)
	f := atomicOf(n, 10)
	var added atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i, h := range hs {
			f.AddHash(h)
			added.Store(int64(i + 1))
		}
	}()
	for snapshots := 0; ; snapshots++ {
		before := added.Load()
		b, err := f.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		g := Must(OpenAtomicBlocked(b))
		for _, h := range hs[:before] {
			if !g.MayContainHash(h) {
				t.Fatalf("snapshot %d of %d keys denies %016x", snapshots, before, h)
			}
		}
		if g.Count() < uint64(before) {
			t.Fatalf("snapshot %d of %d keys counts %d", snapshots, before, g.Count())
		}
		if before == n {
			break
		}
	}
	<-done
}

// Of a live form each damage of the trailer is found that changes what is read.
func TestOpenAtomicBlocked_Damage(t *testing.T) {
	f := atomicOf(60, 10)
	f.AddMany(filtertest.RandomHashes(4, 60))
	sealed, err := f.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	open := func(b []byte) error {
		_, err := OpenAtomicBlocked(ownCopy(b))
		if into := new(AtomicBlocked); err != nil && into.UnmarshalBinary(b) == nil {
			t.Error("UnmarshalBinary takes what OpenAtomicBlocked refuses")
		}
		return err
	}
	refused := func(err error) bool { return errors.Is(err, ErrDamaged) || errors.Is(err, ErrUnknown) }
	live := bytes.Clone(sealed)
	state := len(live) - form.TrailerLen + 3
	live[state] = atomicLive
	if err := open(live); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, 1, 2, 4, 7, 12, 15, 16, 19, 20, 27} {
		b := bytes.Clone(live)
		b[state-3+at] ^= 0x10
		if !refused(open(b)) {
			t.Errorf("byte %d of the trailer of a live form changed: opens", at)
		}
	}
	// Under checksums that fit.
	le := binary.LittleEndian
	for name, change := range map[string]func(t []byte){
		"state 2":      func(t []byte) { t[3] = 2 },
		"reserved":     func(t []byte) { t[5] = 1 },
		"more keys":    func(t []byte) { le.PutUint32(t[8:], 61) },
		"no lines":     func(t []byte) { le.PutUint32(t[12:], 0) },
		"many lines":   func(t []byte) { le.PutUint32(t[12:], math.MaxUint32) },
		"murmur3 seed": func(t []byte) { t[20] = 1 },
	} {
		b := bytes.Clone(sealed)
		tr := form.Trailer(b)
		change(tr)
		le.PutUint32(tr[16:], atomicHead(tr))
		if !refused(open(filtertest.Reseal(b))) {
			t.Errorf("%s: opens", name)
		}
	}
	// Lines of no bytes.
	b := slices.Clone(sealed[len(sealed)-atomicTail:])
	le.PutUint32(b[8+12:], 0)
	le.PutUint32(b[8+16:], atomicHead(b[8:]))
	if !refused(open(filtertest.Reseal(b))) {
		t.Error("a filter without lines opens")
	}
}

// Words can only be changed atomically where 8 divides the address.
func TestOpenAtomicBlocked_Address(t *testing.T) {
	b, err := atomicOf(10, 10).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	room := make([]byte, len(b)+16)
	start := int(-uintptr(unsafe.Pointer(&room[0])) & 7)
	for shift := range 8 {
		at := room[start+shift:][:len(b)]
		copy(at, b)
		if _, err := OpenAtomicBlocked(at); (err == nil) != (shift == 0) || errors.Is(err, ErrDamaged) {
			t.Errorf("%d bytes behind a word: %v", shift, err)
		}
		var f AtomicBlocked
		if err := f.UnmarshalBinary(at); err != nil {
			t.Errorf("UnmarshalBinary %d bytes behind a word: %v", shift, err)
		}
	}
}

// No bytes make the decoder panic, and what it takes it writes again.
func FuzzOpenAtomicBlocked(f *testing.F) {
	for _, name := range []string{"none", "example", "hundred", "siphash"} {
		b := filtertest.ReadGolden(f, "atomic-"+name+"-v1.filter", nil)
		f.Add(b, uint64(1))
		live := bytes.Clone(b)
		live[len(live)-form.TrailerLen+3] = atomicLive
		f.Add(live, uint64(2))
	}
	f.Fuzz(func(t *testing.T, b []byte, h uint64) {
		if len(b) >= form.TrailerLen && h&1 == 0 { // past the checksums
			tr := form.Trailer(b)
			binary.LittleEndian.PutUint32(tr[16:], atomicHead(tr))
			b = filtertest.Reseal(b)
		}
		mem := ownCopy(b)
		opened, err := OpenAtomicBlocked(mem)
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrUnknown) {
				t.Fatal(err)
			}
			return
		}
		sealed := opened.Sealed()
		written, err := opened.MarshalBinary()
		if err != nil || sealed && !bytes.Equal(written, b) {
			t.Fatalf("written again it differs: %v", err)
		}
		var copied AtomicBlocked
		if err := copied.UnmarshalBinary(b); (err == nil) != sealed {
			t.Fatalf("sealed %v, UnmarshalBinary: %v", sealed, err)
		}
		if got := opened.MayContainHash(h); got != specAtomic(b, h) {
			t.Fatalf("MayContainHash(%016x) = %v, not as documented", h, got)
		}
		opened.AddHash(h)
		if !opened.MayContainHash(h) || opened.Sealed() {
			t.Fatal("a key that was added is denied, or the filter is still sealed")
		}
		if err := opened.Seal(); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenAtomicBlocked(mem); err != nil {
			t.Fatalf("sealed: %v", err)
		}
	})
}

// mustOpenAtomic returns a filter that works in the serialized form of f, in memory of its
// own.
func mustOpenAtomic(t testing.TB, f *AtomicBlocked) *AtomicBlocked {
	t.Helper()
	b, err := f.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	opened, err := OpenAtomicBlocked(b)
	if err != nil {
		t.Fatal(err)
	}
	return opened
}
