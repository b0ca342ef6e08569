package server

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom/compat/redisbloom"
	"github.com/shaledb/shale/cluster/cmd/internal/resp"
)

// The commands of RedisBloom, with its replies and errors.

// filterCommands returns their lines of the table.
func filterCommands() []command {
	return []command{
		{Name: "BF.RESERVE", Arity: -4, Flags: "write", First: 1, Last: 1, Step: 1, Do: update((*client).bfReserve)},
		{Name: "BF.ADD", Arity: 3, Flags: "write", First: 1, Last: 1, Step: 1, Do: action{update: (*client).bfAdd, keeps: true}},
		{Name: "BF.MADD", Arity: -3, Flags: "write", First: 1, Last: 1, Step: 1, Do: action{update: (*client).bfMAdd, keeps: true}},
		{Name: "BF.INSERT", Arity: -4, Flags: "write", First: 1, Last: 1, Step: 1, Do: action{update: (*client).bfInsert, keeps: true}},
		{Name: "BF.EXISTS", Arity: 3, Flags: "readonly fast", First: 1, Last: 1, Step: 1, Do: read((*client).bfExists)},
		{Name: "BF.MEXISTS", Arity: -3, Flags: "readonly", First: 1, Last: 1, Step: 1, Do: read((*client).bfMExists)},
		{Name: "BF.INFO", Arity: -2, Flags: "readonly fast", First: 1, Last: 1, Step: 1, Do: read((*client).bfInfo)},
		{Name: "BF.CARD", Arity: 2, Flags: "readonly fast", First: 1, Last: 1, Step: 1, Do: read((*client).bfCard)},
		{Name: "BF.DEBUG", Arity: 2, Flags: "readonly", First: 1, Last: 1, Step: 1, Do: read((*client).bfDebug)},
		{Name: "BF.SCANDUMP", Arity: 3, Flags: "readonly", First: 1, Last: 1, Step: 1, Do: read((*client).bfScanDump)},
		{Name: "BF.LOADCHUNK", Arity: 4, Flags: "write", First: 1, Last: 1, Step: 1, Do: update((*client).bfLoadChunk)},
	}
}

// Limits of RedisBloom.
const (
	mostCapacity  = 1 << 30
	mostExpansion = 32768
)

const errUnknownArgument = refusal("Unknown argument received")

// filterOptions say how to make a filter.
type filterOptions struct {
	redisbloom.Options
	compatible bool // its dumps load into a RedisBloom
}

// byDefault are the options of a filter that BF.ADD makes.
var byDefault = filterOptions{Options: redisbloom.Options{
	Capacity: redisbloom.DefaultCapacity, ErrorRate: redisbloom.DefaultErrorRate, Expansion: redisbloom.DefaultExpansion,
}}

// parseFloat reads a number.
func parseFloat(arg []byte) (float64, bool) {
	x, err := strconv.ParseFloat(string(arg), 64)
	return x, err == nil && !math.IsNaN(x)
}

// bfReserve is BF.RESERVE name error capacity [EXPANSION n] [NONSCALING] [COMPATIBLE]. The last word is of this server.
func (c *client) bfReserve(tx Txn, args [][]byte) error {
	if len(args) > 6 {
		return refusal(resp.ArityText("bf.reserve"))
	}
	o, err := reserveOptions(args[1:])
	if err != nil {
		return err
	}
	if _, err := c.findFilter(tx, args[0]); !errors.Is(err, errMissing) {
		if err == nil {
			err = errExists
		}
		return err
	}
	f, err := createFilter(tx, args[0], o)
	if err != nil {
		return err
	}
	c.OK()
	return f.save(c, tx)
}

// createFilter returns an empty filter, which is not saved yet.
func createFilter(tx Txn, name []byte, o filterOptions) (*filter, error) {
	shape, err := redisbloom.NewLineShape(o.Options)
	if err != nil || o.compatible { // the error rate may be too small
		shape, err = redisbloom.NewShape(o.Options)
	}
	if err != nil {
		return nil, errCreate
	}
	f := newFilter(tx, name, shape)
	if !f.fits() {
		return nil, errCreate
	}
	return f, nil
}

// readOption reads an option of a filter, and returns how many words it has. BF.INSERT has one text for whatever is wrong with
// a value.
func readOption(o *filterOptions, args [][]byte, insert bool) (words int, err error) {
	wrong := func(name string, isNumber bool, limits string) (int, error) {
		switch {
		case insert:
			return 0, refusal("Bad " + name)
		case !isNumber:
			return 0, refusal("ERR bad " + name)
		}
		return 0, refusal("ERR " + name + " must be in the range " + limits)
	}
	switch word := strings.ToUpper(string(args[0])); {
	case word == "NONSCALING":
		o.NonScaling = true
		return 1, nil
	case word == "COMPATIBLE":
		o.compatible = true
		return 1, nil
	case word != "ERROR" && word != "CAPACITY" && word != "EXPANSION":
		return 0, errUnknownArgument
	case len(args) == 1:
		return 0, refusal("ERR no " + strings.ToLower(word))
	case word == "ERROR":
		rate, ok := parseFloat(args[1])
		if !ok || !(rate > 0 && rate < 1) {
			return wrong("error rate", ok, "(0.000000, 1.000000)")
		}
		o.ErrorRate = rate
	case word == "CAPACITY":
		n, ok := resp.ParseInt(args[1])
		if !ok || n < 1 || n > mostCapacity {
			return wrong("capacity", ok, fmt.Sprintf("[1, %d]", mostCapacity))
		}
		o.Capacity = uint64(n)
	default:
		n, ok := resp.ParseInt(args[1])
		if !ok || n < 0 || n > mostExpansion {
			return wrong("expansion", ok, fmt.Sprintf("[0, %d]", mostExpansion))
		}
		o.NonScaling = o.NonScaling || n == 0
		o.Expansion = uint32(n)
	}
	return 2, nil
}

// reserveOptions reads error capacity and what is behind them.
func reserveOptions(args [][]byte) (o filterOptions, err error) {
	words := slices.Concat([][]byte{[]byte("ERROR"), args[0], []byte("CAPACITY"), args[1]}, args[2:])
	for n := 0; len(words) > 0; words = words[n:] {
		if n, err = readOption(&o, words, false); err != nil {
			return o, err
		}
	}
	if o.NonScaling && o.Expansion > 0 {
		return o, refusal("Nonscaling filters cannot expand")
	}
	return o, nil
}

// bfAdd is BF.ADD name item.
func (c *client) bfAdd(tx Txn, args [][]byte) error {
	added, itemErr, err := c.addItems(tx, args[0], args[1:], &byDefault)
	if err == nil {
		err = itemErr
	}
	if err == nil {
		c.Truth(added[0])
	}
	return err
}

// bfMAdd is BF.MADD name item [item ...].
func (c *client) bfMAdd(tx Txn, args [][]byte) error {
	return c.addMany(tx, args[0], args[1:], &byDefault)
}

// bfInsert is BF.INSERT name [CAPACITY n] [ERROR rate] [EXPANSION n] [NOCREATE] [NONSCALING]
// [COMPATIBLE] ITEMS item [item ...].
func (c *client) bfInsert(tx Txn, args [][]byte) error {
	o, noCreate, items, err := insertOptions(args[1:])
	switch {
	case err != nil:
		return err
	case noCreate:
		return c.addMany(tx, args[0], items, nil)
	}
	return c.addMany(tx, args[0], items, &o)
}

func insertOptions(args [][]byte) (o filterOptions, noCreate bool, items [][]byte, err error) {
	o = byDefault
	for n := 0; len(args) > 1; args = args[n:] {
		switch {
		case resp.Is(args[0], "ITEMS"):
			return o, noCreate, args[1:], nil
		case resp.Is(args[0], "NOCREATE"):
			noCreate, n = true, 1
		default:
			if n, err = readOption(&o, args, true); err != nil {
				return o, false, nil, err
			}
		}
	}
	return o, false, nil, refusal(resp.ArityText("bf.insert")) // there are no items
}

// addItems adds items to a filter, and makes it by o if there is none and o is not nil. It returns for each whether it was
// new. itemErr belongs to the item after those.
func (c *client) addItems(tx Txn, name []byte, items [][]byte, o *filterOptions) (added []bool, itemErr, err error) {
	f, err := c.usableFilter(tx, name)
	if errors.Is(err, errMissing) && o != nil {
		f, err = createFilter(tx, name, *o)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, item := range items {
		isNew, err := f.add(item)
		if refused := refusal(""); errors.As(err, &refused) {
			itemErr = err
			break
		}
		if err != nil {
			return nil, nil, err
		}
		added = append(added, isNew)
	}
	tx.(*keeper).f = f
	return added, itemErr, nil
}

// addMany replies with an array. Like that of RedisBloom, it ends in the error if there is one.
func (c *client) addMany(tx Txn, name []byte, items [][]byte, o *filterOptions) error {
	added, itemErr, err := c.addItems(tx, name, items, o)
	if err != nil {
		return err
	}
	n := len(added)
	if itemErr != nil {
		n++
	}
	c.Array(n)
	for _, isNew := range added {
		c.Truth(isNew)
	}
	if itemErr != nil {
		c.fail(itemErr)
	}
	return nil
}

// bfExists is BF.EXISTS name item.
func (c *client) bfExists(r shale.Reader, args [][]byte) error { return c.ask(r, args[0], args[1:]) }

// bfMExists is BF.MEXISTS name item [item ...].
func (c *client) bfMExists(r shale.Reader, args [][]byte) error {
	c.Array(len(args) - 1)
	return c.ask(r, args[0], args[1:])
}

// ask replies for each item whether it may be in the filter. Where there is no filter, nothing is in it, as in RedisBloom,
// also if there is a string.
func (c *client) ask(r shale.Reader, name []byte, items [][]byte) error {
	f, err := c.usableFilter(r, name)
	if err != nil && !errors.Is(err, errMissing) && !errors.Is(err, errWrongType) {
		return err
	}
	for _, item := range items {
		has := false
		if f != nil {
			if has, err = f.has(item); err != nil {
				return err
			}
		}
		c.Truth(has)
	}
	return nil
}

// bfCard is BF.CARD name.
func (c *client) bfCard(r shale.Reader, args [][]byte) error {
	f, err := c.usableFilter(r, args[0])
	if errors.Is(err, errMissing) {
		c.Integer(0)
		return nil
	}
	if err == nil {
		c.Integer(int64(f.shape.Info().Items))
	}
	return err
}

// fields are what BF.INFO shows: the option, the name in the reply, and the value, which is
// below 0 if there is none.
var fields = []struct {
	option, name string
	value        func(redisbloom.Info) int64
}{
	{"CAPACITY", "Capacity", func(i redisbloom.Info) int64 { return int64(i.Capacity) }},
	{"SIZE", "Size", func(i redisbloom.Info) int64 { return int64(i.Size) }},
	{"FILTERS", "Number of filters", func(i redisbloom.Info) int64 { return int64(i.Filters) }},
	{"ITEMS", "Number of items inserted", func(i redisbloom.Info) int64 { return int64(i.Items) }},
	{"EXPANSION", "Expansion rate", func(i redisbloom.Info) int64 {
		if i.Expansion == 0 {
			return -1
		}
		return int64(i.Expansion)
	}},
}

// bfInfo is BF.INFO name [field].
func (c *client) bfInfo(r shale.Reader, args [][]byte) error {
	if len(args) > 2 {
		return refusal(resp.ArityText("bf.info"))
	}
	f, err := c.usableFilter(r, args[0])
	if err != nil {
		return err
	}
	info := f.shape.Info()
	if len(args) == 1 {
		c.Map(len(fields))
		for _, field := range fields {
			c.Simple(field.name)
			c.infoValue(field.value(info))
		}
		return nil
	}
	for _, field := range fields {
		if resp.Is(args[1], field.option) {
			c.Array(1)
			c.infoValue(field.value(info))
			return nil
		}
	}
	return refusal("Invalid information value")
}

func (c *client) infoValue(n int64) {
	if n < 0 {
		c.Null()
	} else {
		c.Integer(n)
	}
}

// bfDebug is BF.DEBUG name.
func (c *client) bfDebug(r shale.Reader, args [][]byte) error {
	f, err := c.usableFilter(r, args[0])
	if err != nil {
		return err
	}
	lines := f.shape.Debug()
	c.Array(len(lines))
	for _, line := range lines {
		c.BulkString(line)
	}
	return nil
}

// mostChunk is how many bytes of bits a reply to BF.SCANDUMP has, as in RedisBloom.
const mostChunk = 16 << 20

// bfScanDump is BF.SCANDUMP name iterator. It answers with the next iterator, which is 0
// after the end, and a chunk.
func (c *client) bfScanDump(r shale.Reader, args [][]byte) error {
	f, err := c.usableFilter(r, args[0])
	if err != nil {
		return err
	}
	at, ok := resp.ParseInt(args[1])
	if !ok {
		return refusal("Second argument must be numeric")
	}
	var chunk []byte
	if at == 0 {
		at, chunk = 1, f.shape.Header()
	} else if offset, left := f.placeOf(uint64(at)); at > 0 && left > 0 {
		if chunk, err = f.part(offset, offset+min(left, mostChunk)); err != nil {
			return err
		}
		at += int64(len(chunk))
	} else {
		at = 0
	}
	c.Array(2)
	c.Integer(at)
	c.Bulk(chunk)
	return nil
}

// bfLoadChunk is BF.LOADCHUNK name iterator chunk. The filter answers once the last chunk is there.
func (c *client) bfLoadChunk(tx Txn, args [][]byte) error {
	at, ok := resp.ParseInt(args[1])
	if !ok {
		return refusal("ERR Second argument must be numeric")
	}
	chunk := args[2]
	f, err := c.findFilter(tx, args[0])
	switch {
	case errors.Is(err, errMissing) && at == 1:
		shape, err := redisbloom.ParseShape(chunk)
		if err != nil {
			return errBadData
		}
		if f = newFilter(tx, args[0], shape); !f.fits() {
			return errBadData
		}
		f.next = 1
	case err != nil:
		return err
	default:
		offset, left := f.placeOf(f.next)
		if f.next == 0 || len(chunk) == 0 || uint64(len(chunk)) > left || uint64(at) != f.next+uint64(len(chunk)) {
			return errBadData
		}
		if err := f.set(offset, chunk, offset); err != nil {
			return err
		}
		if f.next = uint64(at); f.complete() {
			f.next = 0
		}
	}
	c.OK()
	return f.save(c, tx)
}

// complete reports whether all chunks are there.
func (f *filter) complete() bool {
	_, left := f.placeOf(f.next)
	return left == 0
}
