package typed

import (
	"bytes"
	"encoding"
	"encoding/gob"
	"encoding/json"
	"errors"
)

// A ValueCodec turns values into bytes.
type ValueCodec[V any] interface {
	// Append appends the bytes of value to dst.
	Append(dst []byte, value V) ([]byte, error)

	// Decode returns the value that src has. It must not change src, or keep it.
	Decode(src []byte) (V, error)
}

// Raw stores bytes as they are.
var Raw = AsValue(Bytes)

// Counter stores numbers as Add does.
var Counter = AsValue(Int64)

// AsValue stores a value as c stores keys: AsValue(String), AsValue(Time).
func AsValue[V any](c KeyCodec[V]) ValueCodec[V] { return keyValue[V]{c} }

type keyValue[V any] struct{ c KeyCodec[V] }

func (c keyValue[V]) Append(dst []byte, value V) ([]byte, error) {
	return c.c.append(dst, value, false)
}

func (c keyValue[V]) Decode(src []byte) (V, error) {
	value, _, err := c.c.decode(src, false)
	return value, err
}

// JSON stores values as encoding/json does.
func JSON[V any]() ValueCodec[V] { return jsonCodec[V]{} }

type jsonCodec[V any] struct{}

func (jsonCodec[V]) Append(dst []byte, value V) ([]byte, error) {
	b, err := json.Marshal(value)
	return append(dst, b...), err
}

func (jsonCodec[V]) Decode(src []byte) (value V, err error) {
	err = json.Unmarshal(src, &value)
	return value, err
}

// Gob stores values as encoding/gob does, each with the description of its type: some 50 bytes and more.
func Gob[V any]() ValueCodec[V] { return gobCodec[V]{} }

type gobCodec[V any] struct{}

func (gobCodec[V]) Append(dst []byte, value V) ([]byte, error) {
	w := bytes.NewBuffer(dst)
	err := gob.NewEncoder(w).Encode(value)
	return w.Bytes(), err
}

func (gobCodec[V]) Decode(src []byte) (value V, err error) {
	r := bytes.NewReader(src)
	if err = gob.NewDecoder(r).Decode(&value); err == nil && r.Len() > 0 {
		err = errors.New("gob: bytes behind the value")
	}
	return value, err
}

// Binary stores values by their own methods MarshalBinary and UnmarshalBinary: Binary[netip.Addr]().
func Binary[V any, P binaryMarshaler[V]]() ValueCodec[V] { return binaryCodec[V, P]{} }

// A binaryMarshaler is a *V that has both methods.
type binaryMarshaler[V any] interface {
	*V
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

type binaryCodec[V any, P binaryMarshaler[V]] struct{}

func (binaryCodec[V, P]) Append(dst []byte, value V) ([]byte, error) {
	b, err := P(&value).MarshalBinary()
	return append(dst, b...), err
}

func (binaryCodec[V, P]) Decode(src []byte) (value V, err error) {
	err = P(&value).UnmarshalBinary(src)
	return value, err
}
