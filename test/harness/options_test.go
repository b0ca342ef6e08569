package harness

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// Every field of the options is drawn, for small stores and for large ones, or it is listed why not.
func TestDraw_EveryField(t *testing.T) {
	for name, draw := range map[string]func(r *rand.Rand, fs vfs.FS) shale.Options{"small": Draw, "large": DrawScaled} {
		t.Run(name, func(t *testing.T) { testDraw(t, draw) })
	}
}

func testDraw(t *testing.T, draw func(r *rand.Rand, fs vfs.FS) shale.Options) {
	seen := make(map[string]map[string]bool) // field, values
	r := rand.New(rand.NewPCG(1, 2))
	var fields []string
	var walk func(prefix string, of reflect.Value)
	walk = func(prefix string, of reflect.Value) {
		for i := range of.NumField() {
			name := prefix + of.Type().Field(i).Name
			fields = append(fields, name)
			if seen[name] == nil {
				seen[name] = make(map[string]bool)
			}
			switch at := of.Field(i); at.Kind() {
			case reflect.Func:
				seen[name][fmt.Sprint(at.Pointer())] = true
			case reflect.Interface:
			default:
				seen[name][fmt.Sprint(at)] = true
			}
			if slices.Contains([]string{"Shipping", "Tuning", "testing"}, name) {
				walk(name+".", of.Field(i))
			}
		}
	}
	for range 400 {
		o := draw(r, vfs.NewMem())
		db, err := shale.Open(Dir, &o)
		if err != nil {
			t.Fatalf("%v; %s", err, OptionsText(&o))
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		fields = fields[:0]
		walk("", reflect.ValueOf(o))
	}
	var isDrawn []string
	for _, d := range optionDraws {
		isDrawn = append(isDrawn, d.field)
		if !slices.Contains(fields, d.field) {
			t.Errorf("%s is drawn, but no field of Options", d.field)
		}
	}
	for name := range optionsFixed {
		if !slices.Contains(fields, name) {
			t.Errorf("%s is listed as fixed, but no field of Options", name)
		}
	}
	for _, name := range fields {
		switch _, fixed := optionsFixed[name]; {
		case slices.Contains(isDrawn, name) == fixed:
			t.Errorf("Options.%s is drawn: %v, and listed as fixed: %v; want one of both: add it to optionDraws, or to optionsFixed with the reason", name, !fixed, fixed)
		case !fixed && len(seen[name]) < 2:
			t.Errorf("Options.%s is drawn, but is always %v", name, seen[name])
		}
	}
}
