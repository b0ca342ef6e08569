// Writes person-*.bf, and prints for how many of 101,000 values each filter answers maybe:
//
//	javac -cp guava.jar Person.java && java -cp guava.jar:. Person
import com.google.common.hash.BloomFilter;
import com.google.common.hash.Funnel;
import com.google.common.hash.Funnels;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.Charset;
import java.util.Arrays;
import java.util.function.IntFunction;

public class Person {
  final int id;
  final String name;
  final long born;
  final double height;
  final boolean member;

  Person(int i) {
    id = i * 7919 - 500000;
    name = "J\u00f6rg " + i + (i % 3 == 0 ? " \ud83c\udf3c" : "");
    born = (long) i * i * 2654435761L - 7;
    height = i / 3.0;
    member = i % 2 == 0;
  }

  static Funnel<Person> in(Charset charset) {
    return (p, into) -> into.putInt(p.id).putString(p.name, charset).putLong(p.born).putDouble(p.height).putBoolean(p.member);
  }

  static void others(Person p, com.google.common.hash.PrimitiveSink into) {
    into.putByte((byte) p.id).putBytes(new byte[] {1, (byte) 0xff}).putShort((short) p.id).putChar((char) p.id)
        .putFloat((float) p.height).putUnencodedChars(p.name);
  }

  static <T> void write(String name, Funnel<? super T> funnel, IntFunction<T> value) throws IOException {
    BloomFilter<T> filter = BloomFilter.create(funnel, 1000, 0.01);
    for (int i = 0; i < 1000; i++) {
      filter.put(value.apply(i));
    }
    try (OutputStream out = new FileOutputStream("person-" + name + ".bf")) {
      filter.writeTo(out);
    }
    int maybe = 0;
    for (int i = 0; i < 101000; i++) {
      if (filter.mightContain(value.apply(i))) {
        maybe++;
      }
    }
    System.out.println(name + " " + maybe);
  }

  public static void main(String[] args) throws IOException {
    for (String charset : new String[] {"utf-8", "iso-8859-1", "us-ascii", "utf-16", "utf-16be", "utf-16le"}) {
      write(charset, in(Charset.forName(charset)), Person::new);
    }
    write("others", Person::others, Person::new);
    write("sequence", Funnels.sequentialFunnel(Funnels.integerFunnel()), i -> Arrays.asList(i, i * i, -i));
  }
}
