// Package sketch has the relatives of the Bloom filters of package bloom: a Scalable, which
// grows; a Counting and a Cuckoo, from which keys can be removed; a Bitset of numbers, which
// makes no mistakes; and an Exact, which learns from mistakes.
//
// The comment of package bloom compares the types and says how to choose. Their names follow
// the same scheme, and what it says of zero values, of constructors and of text holds here too.
package sketch
