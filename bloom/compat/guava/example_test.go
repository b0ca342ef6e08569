package guava_test

import (
	"bytes"
	"fmt"

	"github.com/shaledb/shale/bloom/compat/guava"
)

// A filter for BloomFilter.readFrom(in, Funnels.stringFunnel(UTF_8)) in Java.
func Example() {
	f, err := guava.New(1000, 0.01)
	if err != nil {
		panic(err)
	}
	f.AddString("alice@example.com")

	var file bytes.Buffer
	if _, err := f.WriteTo(&file); err != nil {
		panic(err)
	}
	fmt.Printf("%d bytes, %v, k %d\n", file.Len(), f.Strategy(), f.K())

	var g guava.Filter
	if _, err := g.ReadFrom(&file); err != nil {
		panic(err)
	}
	fmt.Println(g.MayContainString("alice@example.com"), g.MayContainString("bob@example.com"))
	// Output:
	// 1206 bytes, MURMUR128_MITZ_64, k 7
	// true false
}

// A filter of a Java program whose funnel is
//
//	(person, into) -> into.putInt(person.id).putString(person.name, UTF_8)
func ExampleNewOf() {
	type Person struct {
		ID   int32
		Name string
	}
	f, err := guava.New(1000, 0.01)
	if err != nil {
		panic(err)
	}
	people, err := guava.NewOf(f, func(p Person, s *guava.Sink) {
		s.PutInt(p.ID)
		s.PutString(p.Name, guava.UTF8)
	})
	if err != nil {
		panic(err)
	}
	if err := people.Add(Person{1, "Ada"}); err != nil {
		panic(err)
	}
	fmt.Println(people.MayContain(Person{1, "Ada"}), people.MayContain(Person{2, "Ada"}))
	// Output: true false
}
