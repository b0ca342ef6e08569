package lines

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// randomHashes returns n random hashes, the same for the same seed.
func randomHashes(seed uint64, n int) []uint64 {
	r := rand.New(rand.NewPCG(seed, 1))
	hs := make([]uint64, n)
	for i := range hs {
		hs[i] = r.Uint64()
	}
	return hs
}

// bitsOf returns the line of h, and its bits in the line, as the format defines them.
func bitsOf(h, n uint64, k uint32) (line uint64, fields []uint) {
	line, _ = bits.Mul64(h, n)
	fields = make([]uint, 0, MaxProbes)
	for i := range k {
		p, field := h*0x9e3779b97f4a7c15, i
		if i >= 7 {
			p, field = (h^h>>32)*0xd6e8feb86659fd93, i-7
		}
		fields = append(fields, uint(p>>(64-9*(field+1)))&511)
	}
	return line, fields
}

func hasByFormat(lines []byte, n uint64, k uint32, h uint64) bool {
	line, fields := bitsOf(h, n, k)
	for _, q := range fields {
		if lines[line*64+uint64(q/8)]>>(q%8)&1 == 0 {
			return false
		}
	}
	return true
}

func addByFormat(lines []byte, n uint64, k uint32, h uint64) {
	line, fields := bitsOf(h, n, k)
	for _, q := range fields {
		lines[line*64+uint64(q/8)] |= 1 << (q % 8)
	}
}

// randomLines returns n lines, of whose bits 2^-clear are clear; or, if clear is 0, of
// whose bits an eighth is set. They begin anywhere, so that they are rarely aligned.
func randomLines(r *rand.Rand, n uint64, clear int) []byte {
	before := r.IntN(Bytes)
	all := make([]byte, before+int(n)*Bytes+r.IntN(Bytes))
	lines := all[before : before+int(n)*Bytes]
	for i := 0; i < len(lines); i += 8 {
		w := r.Uint64()
		for range clear - 1 {
			w |= r.Uint64()
		}
		if clear == 0 {
			w &= r.Uint64() & r.Uint64()
		}
		binary.LittleEndian.PutUint64(lines[i:], w)
	}
	return lines
}

var lineCounts = []uint64{1, 2, 3, 8, 77, 1000}

// Every kernel gives the answers that follow from the format, for each number of probes, lines and
// hashes, and writes nothing else.
func TestHasMany(t *testing.T) {
	for _, kernel := range kernels() {
		t.Run(kernel.name, func(t *testing.T) { testHasMany(t, kernel) })
	}
}

func testHasMany(t *testing.T, kernel kernel) {
	r := rand.New(rand.NewPCG(1, 2))
	maybe, all := 0, 0
	for k := uint32(MinProbes); k <= MaxProbes; k++ {
		for count := 1; count <= 130; count++ {
			n := lineCounts[count%len(lineCounts)]
			lines := randomLines(r, n, 1+r.IntN(4)*2)
			hashes := randomHashes(r.Uint64(), count+1)[1:] // begins at an odd word now and then
			for i := range hashes {
				if r.IntN(8) == 0 {
					hashes[i] = []uint64{0, 1, 1<<64 - 1, 1 << 63}[r.IntN(4)]
				}
			}
			out := make([]bool, count+2)
			out[count] = true
			kernel.hasMany(lines, n, k, hashes, out[:count])
			if !out[count] || out[count+1] {
				t.Fatalf("k %d, %d lines, %d hashes: an answer too many", k, n, count)
			}
			for i, h := range hashes {
				want := hasByFormat(lines, n, k, h)
				if out[i] != want {
					t.Fatalf("k %d, %d lines, hash %d of %d: %v, want %v", k, n, i, count, out[i], want)
				}
				if got := kernel.has(&Units{First: Unit{lines, n, k}}, h); got != want {
					t.Fatalf("k %d, %d lines, hash %#x alone: %v, want %v", k, n, h, got, want)
				}
				maybe += one(want)
				all++
			}
		}
	}
	if maybe < all/10 || maybe > all*9/10 {
		t.Errorf("%d of %d answers are maybe: the test asks little", maybe, all)
	}
}

// A single question asks both units, the second by another hash. The zero filter says maybe.
func TestUnits(t *testing.T) {
	for _, kernel := range kernels() {
		r := rand.New(rand.NewPCG(11, 12))
		if !kernel.has(&Units{}, r.Uint64()) {
			t.Errorf("%s: the zero filter denies a hash", kernel.name)
		}
		maybe, all := 0, 0
		for k1 := uint32(MinProbes); k1 <= MaxProbes; k1++ {
			for k2 := uint32(MinProbes); k2 <= MaxProbes; k2++ {
				n1, n2 := lineCounts[r.IntN(5)], lineCounts[r.IntN(5)]
				u := Units{Unit{randomLines(r, n1, 3), n1, k1}, Unit{randomLines(r, n2, 3), n2, k2}}
				for range 50 {
					h := r.Uint64()
					want := hasByFormat(u.First.Bytes, n1, k1, h) && hasByFormat(u.Second.Bytes, n2, k2, SecondHash(h))
					if got := kernel.has(&u, h); got != want {
						t.Fatalf("%s: %d probes of %d lines, %d of %d: %v, want %v", kernel.name, k1, n1, k2, n2, got, want)
					}
					all, maybe = all+1, maybe+one(want)
				}
			}
		}
		if maybe < all/20 || maybe > all*9/10 {
			t.Errorf("%d of %d answers are maybe: the test asks little", maybe, all)
		}
	}
}

// Every kernel sets the bits of the format, and no others.
func TestAddMany(t *testing.T) {
	for _, kernel := range kernels() {
		t.Run(kernel.name, func(t *testing.T) { testAddMany(t, kernel) })
	}
}

func testAddMany(t *testing.T, kernel kernel) {
	r := rand.New(rand.NewPCG(3, 4))
	for k := uint32(MinProbes); k <= MaxProbes; k++ {
		for count := 1; count <= 130; count++ {
			n := lineCounts[count%len(lineCounts)]
			lines := randomLines(r, n, 0)
			want := bytes.Clone(lines)
			hashes := randomHashes(r.Uint64(), count)
			for _, h := range hashes {
				addByFormat(want, n, k, h)
			}
			kernel.addMany(lines, n, k, hashes)
			if !bytes.Equal(lines, want) {
				t.Fatalf("k %d, %d lines, %d hashes: the bits differ", k, n, count)
			}
		}
	}
}

// The second unit is asked by other hashes, and only where the first has said maybe.
func TestSecond(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for count := range 200 {
		n, k := lineCounts[count%len(lineCounts)], uint32(MinProbes+count%(MaxProbes-MinProbes+1))
		lines, hashes := randomLines(r, n, 3), randomHashes(r.Uint64(), count)
		added := bytes.Clone(lines)
		AddManySecond(added, n, k, hashes)
		want := bytes.Clone(lines)
		out, wantOut := make([]bool, count), make([]bool, count)
		for i, h := range hashes {
			addByFormat(want, n, k, SecondHash(h))
			out[i] = count%3 != 0 && r.IntN(2) == 0
			wantOut[i] = out[i] && hasByFormat(lines, n, k, SecondHash(h))
		}
		HasManySecond(lines, n, k, hashes, out)
		if !slices.Equal(out, wantOut) {
			t.Fatalf("k %d, %d lines, %d hashes: answers differ", k, n, count)
		}
		if !bytes.Equal(added, want) {
			t.Fatalf("k %d, %d lines, %d hashes: the bits differ", k, n, count)
		}
	}
}

// atomicBits returns the line of h and the bits that it sets there, as package bloom defines them: the fields
// of the product are, from the top, the first word, half the distance between two words, and six
// times the number of a bit. In memory a word is little-endian on all machines.
func atomicBits(h uint64, n int) (line uint64, bits [8]uint64) {
	p := h * 0x9e3779b97f4a7c15
	first, distance := p>>61, 2*(p>>59&3)+1
	for i := range uint64(6) {
		bits[(first+i/2*distance)%8] |= 1 << (p >> (53 - 6*i) & 63)
	}
	for i, w := range bits {
		bits[i] = binary.NativeEndian.Uint64(binary.LittleEndian.AppendUint64(nil, w))
	}
	return Place(h, uint64(n)), bits
}

// A filter that others add to has the answers of its own layout.
func TestAtomic(t *testing.T) {
	for _, kernel := range kernels() {
		t.Run(kernel.name, func(t *testing.T) { testAtomic(t, kernel) })
	}
}

func testAtomic(t *testing.T, kernel kernel) {
	r := rand.New(rand.NewPCG(9, 10))
	maybe, all := 0, 0
	for count := 1; count <= 130; count++ {
		for _, n := range []int{1, 2, 3, 50} {
			words := make([]uint64, n*8)
			for i := range words {
				words[i] = r.Uint64() & r.Uint64()
			}
			hashes, want := randomHashes(r.Uint64(), count), make([]bool, count)
			for i, h := range hashes {
				line, bits := atomicBits(h, n)
				if i%2 == 0 {
					for j, w := range bits {
						words[line*8+uint64(j)] |= w
					}
				}
			}
			for i, h := range hashes {
				line, bits := atomicBits(h, n)
				want[i] = true
				for j, w := range bits {
					want[i] = want[i] && words[line*8+uint64(j)]&w == w
				}
				if AtomicHas(words, h) != want[i] {
					t.Fatalf("%d lines, hash %#x alone: want %v", n, h, want[i])
				}
				all, maybe = all+1, maybe+one(want[i])
			}
			out := make([]bool, count+1)
			kernel.atomic(words, hashes, out[:count])
			if !slices.Equal(out[:count], want) || out[count] {
				t.Fatalf("%d lines, %d hashes: answers differ", n, count)
			}
		}
	}
	if maybe < all/3 || maybe > all*9/10 {
		t.Errorf("%d of %d answers are maybe: the test asks little", maybe, all)
	}
}

func splitBits(h uint64, n int) (block int, bits Block) {
	for j := range bits {
		bits[j] = 1 << (uint32(h) * salt[j] >> 27)
	}
	return int(h >> 32 * uint64(n) >> 32), bits
}

// Split block filters, too, have the answers and the bits of their format.
func TestSplit(t *testing.T) {
	for _, kernel := range kernels() {
		t.Run(kernel.name, func(t *testing.T) { testSplit(t, kernel) })
	}
}

func testSplit(t *testing.T, kernel kernel) {
	r := rand.New(rand.NewPCG(7, 8))
	maybe, all := 0, 0
	if kernel.splitAdd(nil, 1); !kernel.splitHas(nil, 1) {
		t.Error("a filter without blocks denies a hash")
	}
	for count := 1; count <= 130; count++ {
		for _, n := range []int{1, 2, 3, 50} {
			blocks := make([]Block, n+2) // one before and one behind, which stay 0
			filter := blocks[1 : n+1]
			want := slices.Clone(filter)
			hashes := randomHashes(r.Uint64(), 2*count)
			for _, h := range hashes[:count] {
				i, bits := splitBits(h, n)
				for j := range bits {
					want[i][j] |= bits[j]
				}
			}
			kernel.splitAddMany(filter, hashes[:count])
			if !slices.Equal(filter, want) || blocks[0] != (Block{}) || blocks[n+1] != (Block{}) {
				t.Fatalf("%d blocks, %d hashes: the bits differ", n, count)
			}
			out := make([]bool, len(hashes)+1)
			kernel.splitHasMany(filter, hashes, out[:len(hashes)])
			if out[len(hashes)] {
				t.Fatalf("%d blocks, %d hashes: an answer too many", n, count)
			}
			clear(filter)
			for i, h := range hashes {
				place, bits := splitBits(h, n)
				has := true
				for j := range bits {
					has = has && want[place][j]&bits[j] != 0
				}
				if out[i] != has || kernel.splitHas(want, h) != has {
					t.Fatalf("%d blocks, hash %d of %d: %v, alone %v, want %v", n, i, len(hashes), out[i], kernel.splitHas(want, h), has)
				}
				maybe += one(has)
				all++
				if kernel.splitAdd(filter, h); i < count {
					continue
				}
				if !kernel.splitHas(filter, h) {
					t.Fatalf("%d blocks: hash %#x was added, and is not there", n, h)
				}
			}
			for _, h := range hashes[count:] { // as the single ones were added, so many at a time
				place, bits := splitBits(h, n)
				for j := range bits {
					want[place][j] |= bits[j]
				}
			}
			if !slices.Equal(filter, want) {
				t.Fatalf("%d blocks, %d hashes added one by one: the bits differ", n, len(hashes))
			}
		}
	}
	if maybe < all/10 || maybe > all*9/10 {
		t.Errorf("%d of %d answers are maybe: the test asks little", maybe, all)
	}
}

// Nothing is asked or added where there is no hash, and lines that are too short are refused
// before a kernel could read past their end.
func TestBounds(t *testing.T) {
	lines := make([]byte, 2*Bytes)
	HasMany(lines, 2, 6, nil, nil)
	AddMany(lines, 2, 6, nil)
	HasManySecond(lines, 2, 6, nil, nil)
	AddManySecond(lines, 2, 6, nil)
	AtomicHasMany(make([]uint64, 8), nil, nil)
	SplitHasMany(make([]Block, 1), nil, nil)
	SplitAddMany(make([]Block, 1), nil)
	if !bytes.Equal(lines, make([]byte, 2*Bytes)) {
		t.Error("lines have changed")
	}
	out, hashes := make([]bool, 1), []uint64{1}
	for name, call := range map[string]func(){
		"lines of HasMany": func() { HasMany(lines[:2*Bytes-1:2*Bytes-1], 2, 6, hashes, out) },
		"lines of AddMany": func() { AddMany(lines[:2*Bytes-1:2*Bytes-1], 2, 6, hashes) },
		"hashes":           func() { HasMany(lines, 2, 6, nil, out) },
		"words":            func() { AtomicHasMany(make([]uint64, 7), hashes, out) },
		"blocks to ask":    func() { SplitHasMany(nil, hashes, out) },
		"blocks to add to": func() { SplitAddMany(nil, hashes) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: too few are accepted", name)
				}
			}()
			call()
		}()
	}
}

func TestAllocatesNothing(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	lines, words, blocks, hashes := make([]byte, 100*Bytes), make([]uint64, 800), make([]Block, 100), randomHashes(1, 100)
	units := Units{First: Unit{lines, 100, 9}}
	n := testing.AllocsPerRun(100, func() {
		var out [100]bool
		AddMany(lines, 100, 9, hashes)
		AddManySecond(lines, 100, 9, hashes)
		HasMany(lines, 100, 9, hashes, out[:])
		HasManySecond(lines, 100, 9, hashes, out[:])
		AtomicHasMany(words, hashes, out[:])
		SplitAddMany(blocks, hashes)
		SplitHasMany(blocks, hashes, out[:])
		out[0] = Has(lines, 100, 9, hashes[0])
		out[1] = units.Has(hashes[1])
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzKernels(f *testing.F) {
	f.Add(uint64(1), uint16(3), uint8(6), uint8(70), []byte("some bits of the lines"))
	f.Add(uint64(2), uint16(1), uint8(14), uint8(1), bytes.Repeat([]byte{0xff}, 300))
	f.Fuzz(func(t *testing.T, seed uint64, count uint16, k, some uint8, content []byte) {
		n, probes := uint64(count%512)+1, MinProbes+uint32(k)%(MaxProbes-MinProbes+1)
		lines := make([]byte, n*Bytes)
		for i := range lines {
			if len(content) > 0 {
				lines[i] = content[i%len(content)]
			}
		}
		hashes := randomHashes(seed, int(some)+1)
		want := make([]bool, len(hashes))
		added := bytes.Clone(lines)
		for i, h := range hashes {
			want[i] = hasByFormat(lines, n, probes, h)
			addByFormat(added, n, probes, h)
		}
		for _, kernel := range kernels() {
			out := make([]bool, len(hashes))
			kernel.hasMany(lines, n, probes, hashes, out)
			if !slices.Equal(out, want) {
				t.Errorf("%s: answers differ", kernel.name)
			}
			own := bytes.Clone(lines)
			kernel.addMany(own, n, probes, hashes)
			if !bytes.Equal(own, added) {
				t.Errorf("%s: bits differ", kernel.name)
			}
			kernel.hasMany(own, n, probes, hashes, out)
			if slices.Contains(out, false) {
				t.Errorf("%s: denies a hash that was added", kernel.name)
			}
		}
	})
}

func Example() {
	filter := make([]byte, 10*Bytes)
	AddMany(filter, 10, 6, []uint64{0x9aa1_0000_0000_1234, 0x0123_4567_89ab_cdef})
	maybe := make([]bool, 3)
	HasMany(filter, 10, 6, []uint64{0x0123_4567_89ab_cdef, 1, 0x9aa1_0000_0000_1234}, maybe)
	fmt.Println(maybe)
	// Output: [true false true]
}
