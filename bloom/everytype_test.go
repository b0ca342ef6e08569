package bloom_test

import (
	"bytes"
	"encoding"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/compat/bip37"
	"github.com/shaledb/shale/bloom/compat/bitsandblooms"
	"github.com/shaledb/shale/bloom/compat/guava"
	"github.com/shaledb/shale/bloom/compat/parquet"
	"github.com/shaledb/shale/bloom/compat/redisbloom"
	"github.com/shaledb/shale/bloom/sketch"
	"github.com/shaledb/shale/bundle"
)

// A filterType is an exported type whose values are filters.
type filterType struct {
	name string
	full func() any // a pointer to a filter with keys
	zero func() any // a pointer to the zero value

	exact bool // the zero value is the empty set: it says no and takes members
	bare  bool // it has no serialized form: writing and reading it is an error

	formats func(t *testing.T, full, zero any, bare bool)
}

func typeOf[T any](name string, full func() *T) filterType {
	return filterType{
		name: name, full: func() any { return full() }, zero: func() any { return new(T) },
		formats: func(t *testing.T, full, zero any, bare bool) { checkFormats(t, *full.(*T), bare) },
	}
}

func without(f filterType) filterType { f.bare = true; return f }

// every is all filter types. A new one gets a line here: TestEveryType_Listed fails
// without it.
var every = []filterType{
	typeOf("bloom.AtomicBlocked", func() *bloom.AtomicBlocked {
		f := get(bloom.NewAtomicBlocked(bloom.AtomicBlockedOptions{Keys: 100}))
		f.AddHash(12345)
		return f
	}),
	func() filterType {
		f := typeOf("sketch.Bitset", func() *sketch.Bitset {
			s := new(sketch.Bitset)
			must(s.Set(3), s.Set(300))
			s.Compact()
			return s
		})
		f.exact = true
		return f
	}(),
	typeOf("bloom.Blocked", func() *bloom.Blocked {
		return get(bloom.OpenBlocked(bloom.AppendBlocked(nil, []uint64{1, 2, 3 << 60}, 20)))
	}),
	typeOf("sketch.Counting", func() *sketch.Counting {
		return withKey(get(sketch.NewCounting(sketch.CountingOptions{Keys: 100, FPR: 0.01})))
	}),
	typeOf("sketch.Cuckoo", func() *sketch.Cuckoo {
		f := get(sketch.NewCuckoo(sketch.CuckooOptions{Keys: 100}))
		must(f.Add([]byte("key")))
		return f
	}),
	without(typeOf("sketch.Exact", func() *sketch.Exact { return get(sketch.NewExact(bloom.New(100, 0.01), sketch.ExactOptions{})) })),
	typeOf("bloom.Filter", func() *bloom.Filter { // without what it is planned for, which is not written
		return withKey(bloom.Must(bloom.NewFilter(bloom.FilterOptions{Bits: 960, Probes: 7})))
	}),
	typeOf("bloom.Fuse", func() *bloom.Fuse {
		return get(bloom.OpenFuse(get(bloom.AppendStatic(nil, []uint64{1, 2, 3 << 60}, bloom.StaticOptions{Kind: bloom.KindFuse, BitsPerKey: 10}))))
	}),
	typeOf("sketch.Scalable", func() *sketch.Scalable {
		s := get(sketch.NewScalable(sketch.ScalableOptions{Capacity: 2}))
		must(s.AddKeys([][]byte{[]byte("a"), []byte("b"), []byte("c")}))
		return s
	}),
	typeOf("bloom.Static", func() *bloom.Static {
		h := get(bloom.NewHasher(bloom.HashSipHash, 99))
		return get(bloom.OpenStatic(get(bloom.AppendStatic(nil, []uint64{1, 2, 3 << 60}, bloom.StaticOptions{BitsPerKey: 16, Hasher: h}))))
	}),
	typeOf("bip37.Filter", func() *bip37.Filter { return withKey(get(bip37.New(100, 0.01, 7, bip37.UpdateAll))) }),
	typeOf("bitsandblooms.Filter", func() *bitsandblooms.Filter { return withKey(get(bitsandblooms.New(1000, 7))) }),
	typeOf("guava.Filter", func() *guava.Filter {
		f := get(guava.New(100, 0.01))
		must(f.AddString("key"))
		return f
	}),
	without(typeOf("guava.Of", func() *guava.Of[string] {
		return get(guava.NewOf(get(guava.New(100, 0.01)), func(v string, s *guava.Sink) { s.PutString(v, guava.UTF8) }))
	})),
	typeOf("parquet.Filter", func() *parquet.Filter { return withKey(get(parquet.New(100, 0.01))) }),
	typeOf("redisbloom.Filter", func() *redisbloom.Filter {
		f := get(redisbloom.New(2, 0.01))
		for _, key := range []string{"a", "b", "c"} {
			must(f.AddString(key))
		}
		return f
	}),
	without(typeOf("bundle.Bundle", func() *bundle.Bundle {
		var b bytes.Buffer
		get(bundle.Write(&b, &bundle.Spec{}, nil))
		return get(bundle.Open(b.Bytes()))
	})),
}

// others are the exported types with methods that are not filters.
var others = map[string]string{
	"bloom.HashFunc":      "the function of a filter",
	"bloom.HashID":        "a number",
	"bloom.Hasher":        "TestHasher_Text",
	"bloom.Kind":          "a number",
	"bloom.StaticBuilder": "memory for building",
	"bloom.Stored":        "it asks the bytes of others: TestStored",
	"guava.Strategy":      "a number",
	"guava.Sink":          "a buffer",
	"redisbloom.Loader":   "the state of a load",
	"redisbloom.Shape":    "a filter without bits",
}

func get[T any](v T, err error) T {
	must(err)
	return v
}

func must(errs ...error) {
	if err := errors.Join(errs...); err != nil {
		panic(err)
	}
}

func withKey[F interface{ Add(key []byte) error }](f F) F {
	must(f.Add([]byte("key")))
	return f
}

// Each exported type must be in one of the two lists, so that the tests below hold for it.
func TestEveryType_Listed(t *testing.T) {
	listed := make(map[string]bool)
	for _, f := range every {
		listed[f.name] = true
	}
	found := make(map[string]bool)
	for _, root := range []string{".", "../bundle"} {
		must(filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && d.Name() == "internal" {
				return filepath.SkipDir
			}
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, decl := range file.Decls {
				if name := receiver(decl); ast.IsExported(name) {
					found[file.Name.Name+"."+name] = true
				}
			}
			return nil
		}))
	}
	for name := range found {
		if !listed[name] && others[name] == "" {
			t.Errorf("%s has methods and is neither among the filter types of this test nor among the others", name)
		}
	}
	for name := range listed {
		if !found[name] {
			t.Errorf("%s is listed, and there is no such type with methods", name)
		}
	}
}

// receiver returns the type that decl is an exported method of, or "".
func receiver(decl ast.Decl) string {
	f, ok := decl.(*ast.FuncDecl)
	if !ok || f.Recv == nil || !f.Name.IsExported() {
		return ""
	}
	typ := f.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// A box is a struct that has a filter in all ways that a struct can.
type box[T any] struct {
	XMLName xml.Name `json:"-" xml:"box"`
	Name    string
	Value   T
	Pointer *T
	Many    []T
	None    *T
}

// No encoder of the standard library loses a filter without an error, whether it gets it by
// value, by pointer or inside of another value.
func TestEveryType_Formats(t *testing.T) {
	for _, f := range every {
		t.Run(f.name, func(t *testing.T) { f.formats(t, f.full(), f.zero(), f.bare) })
	}
}

func checkFormats[T any](t *testing.T, full T, bare bool) {
	in := box[T]{Name: "name", Value: full, Pointer: &full, Many: []T{full, full}}
	codecs := []struct {
		name      string
		marshal   func(v any) ([]byte, error)
		unmarshal func(b []byte, v any) error
		values    bool // takes what cannot be addressed
	}{
		{"JSON", json.Marshal, json.Unmarshal, true},
		{"XML", xml.Marshal, xml.Unmarshal, true},
		{"gob", func(v any) ([]byte, error) {
			var b bytes.Buffer
			err := gob.NewEncoder(&b).Encode(v)
			return b.Bytes(), err
		}, func(b []byte, v any) error { return gob.NewDecoder(bytes.NewReader(b)).Decode(v) }, false},
	}
	for _, c := range codecs {
		for what, v := range map[string]any{"value": full, "pointer": &full, "struct": in, "pointer to struct": &in} {
			b, err := c.marshal(v)
			if c.name == "XML" && !strings.Contains(what, "struct") && strings.Contains(reflect.TypeFor[T]().Name(), "[") {
				continue // the name of a generic type is no name of an element
			}
			if bare {
				if err == nil {
					t.Errorf("%s of a %s: %.60q, and no error", c.name, what, b)
				}
				continue
			}
			if err != nil {
				if c.values || strings.HasPrefix(what, "pointer") {
					t.Errorf("%s of a %s: %v", c.name, what, err)
				}
				continue
			}
			var one T
			var got box[T]
			if strings.Contains(what, "struct") {
				err = c.unmarshal(b, &got)
				got.XMLName = xml.Name{}
				if err != nil || !reflect.DeepEqual(got, in) {
					t.Errorf("%s of a %s: after a round trip it is %v, %v", c.name, what, got, err)
				}
			} else if err = c.unmarshal(b, &one); err != nil || !reflect.DeepEqual(one, full) {
				t.Errorf("%s of a %s: after a round trip it is %v, %v", c.name, what, one, err)
			}
		}
	}
	for _, damaged := range []string{`"%%%"`, `"AAAA"`, `""`, `{}`, `7`} {
		got := new(T)
		if err := json.Unmarshal([]byte(damaged), got); err == nil || !reflect.DeepEqual(got, new(T)) {
			t.Errorf("JSON %s: %v, and the filter is %v", damaged, err, got)
		}
		if text, ok := any(got).(encoding.TextUnmarshaler); !ok {
			t.Error("there is no UnmarshalText")
		} else if err := text.UnmarshalText([]byte("AAAA")); bare != errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("UnmarshalText: %v", err)
		}
	}
	if text, ok := any(full).(encoding.TextMarshaler); !ok {
		t.Error("a value has no MarshalText")
	} else if _, err := text.MarshalText(); bare != errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("MarshalText: %v", err)
	}
}

// A filter prints as a few short lines that begin with its type, not as its bits.
func TestEveryType_String(t *testing.T) {
	for _, f := range every {
		full, zero := f.full(), f.zero()
		s := fmt.Sprint(full)
		if !strings.HasPrefix(s, f.name+":") || len(s) > 300 || strings.Count(s, "\n") > 8 || strings.HasSuffix(s, "\n") || strings.Contains(s, "%!") {
			t.Errorf("%s prints as %.200q", f.name, s)
		}
		if byValue := fmt.Sprint(reflect.ValueOf(full).Elem().Interface()); byValue != s {
			t.Errorf("%s by value prints as %.200q, by pointer as %q", f.name, byValue, s)
		}
		if s := fmt.Sprint(zero); !strings.HasPrefix(s, f.name+":") || !f.exact && !strings.Contains(s, "maybe") || strings.Contains(s, "PANIC") {
			t.Errorf("the zero %s prints as %.200q", f.name, s)
		}
	}
}

// The zero value of every filter says maybe to every key, because it does not know of any
// that is absent. None of its methods panics or returns NaN, in any order of calls.
func TestEveryType_Zero(t *testing.T) {
	for _, f := range every {
		t.Run(f.name, func(t *testing.T) {
			together := reflect.ValueOf(f.zero())
			for i := range together.NumMethod() {
				callZero(t, f, reflect.ValueOf(f.zero()), i)
			}
			for range 2 {
				for i := range together.NumMethod() {
					callZero(t, f, together, i)
				}
			}
		})
	}
}

func callZero(t *testing.T, f filterType, v reflect.Value, i int) {
	t.Helper()
	name := fmt.Sprintf("the zero %s: %s", f.name, v.Type().Method(i).Name)
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("%s panics: %v", name, p)
		}
	}()
	m := v.Method(i)
	results := m.Call(arguments(m.Type()))
	for _, r := range results {
		checkZero(t, f, name, v.Type().Method(i).Name, r, m.Type().NumIn() == 0)
	}
}

// checkZero checks a result of a method of a zero filter.
func checkZero(t *testing.T, f filterType, name, method string, r reflect.Value, plain bool) {
	t.Helper()
	asks := strings.Contains(method, "Contain") || strings.Contains(method, "Check") || strings.Contains(method, "Test") || strings.HasPrefix(method, "Has")
	switch r.Kind() {
	case reflect.Bool:
		if asks && !f.exact && !r.Bool() {
			t.Errorf("%s = no", name)
		}
	case reflect.Slice:
		for i := range r.Len() {
			checkZero(t, f, name, method, r.Index(i), plain)
		}
	case reflect.Float64:
		rate := strings.HasSuffix(method, "FPR") || strings.HasSuffix(method, "FillRatio")
		if x := r.Float(); math.IsNaN(x) || rate && plain && x != 1 {
			t.Errorf("%s = %v", name, x)
		}
	case reflect.Func: // an iterator
		if r.Type().In(0).NumIn() == 1 {
			for range r.Seq() {
			}
			return
		}
		for range r.Seq2() {
		}
	}
}

// arguments returns arguments for a call of a method.
func arguments(method reflect.Type) (in []reflect.Value) {
	for i := range method.NumIn() {
		typ := method.In(i)
		if method.IsVariadic() && i == method.NumIn()-1 {
			typ = typ.Elem()
		}
		in = append(in, argument(typ))
	}
	return in
}

func argument(typ reflect.Type) reflect.Value {
	switch {
	case typ == reflect.TypeFor[[]byte]():
		return reflect.ValueOf([]byte("key"))
	case typ == reflect.TypeFor[io.Writer]():
		return reflect.ValueOf(io.Discard)
	case typ == reflect.TypeFor[io.Reader]():
		return reflect.ValueOf(strings.NewReader("key"))
	case typ.Kind() == reflect.String:
		return reflect.ValueOf("key").Convert(typ)
	case typ.Kind() == reflect.Pointer:
		return reflect.New(typ.Elem())
	case typ.Kind() == reflect.Func:
		return reflect.MakeFunc(typ, func([]reflect.Value) (out []reflect.Value) {
			for i := range typ.NumOut() {
				out = append(out, reflect.Zero(typ.Out(i)))
			}
			return out
		})
	case typ.Kind() == reflect.Uint64:
		return reflect.ValueOf(uint64(12345678912345678987)).Convert(typ)
	}
	return reflect.Zero(typ)
}

// What is added to a zero filter is not lost without a sign: adding is an error, or writing
// the filter is, or the filter that is written says maybe to the key.
func TestEveryType_AddToZero(t *testing.T) {
	for _, f := range every {
		zero := f.zero()
		add := reflect.ValueOf(zero).MethodByName("Add")
		if !add.IsValid() || !takes(t, f.name, add) {
			continue
		}
		text, err := json.Marshal(zero)
		if err != nil {
			continue
		}
		again := f.zero()
		if err := json.Unmarshal(text, again); err != nil {
			t.Errorf("the zero %s is written, and read with %v", f.name, err)
		}
		if asker, ok := again.(bloom.Set); !ok || !asker.MayContain([]byte("key")) {
			t.Errorf("the zero %s takes a key, and is written and read without it", f.name)
		}
	}
}

// takes calls a method Add, and reports whether it returns no error.
func takes(t *testing.T, name string, add reflect.Value) (taken bool) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("the zero %s: Add panics: %v", name, p)
		}
	}()
	taken = true
	for _, r := range add.Call(arguments(add.Type())) {
		if err, ok := r.Interface().(error); ok && err != nil {
			taken = false
		}
	}
	return taken
}
