// TypeScript: types, generics, enums, classes, async iteration, big numbers, dates, text in many scripts.
import { readFileSync, writeFileSync } from 'fs';
import { strict as assert } from 'assert';

enum Kind { Circle, Square }
interface Shape { readonly kind: Kind; area(): number }
abstract class Base implements Shape {
  constructor(readonly kind: Kind, protected size: number) {}
  abstract area(): number;
}
class Square extends Base {
  constructor(size: number) { super(Kind.Square, size); }
  area = () => this.size ** 2;
}
function group<T, K extends string | number>(all: T[], by: (one: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const one of all) groups.set(by(one), [...(groups.get(by(one)) ?? []), one]);
  return groups;
}
async function* numbers(to: number): AsyncGenerator<number> {
  for (let n = 0; n < to; n++) { await new Promise(r => setTimeout(r, 1)); yield n; }
}

async function main(): Promise<void> {
  const shapes: Shape[] = [new Square(2), new Square(3)];
  assert.equal(shapes.reduce((sum, shape) => sum + shape.area(), 0), 13);
  assert.deepEqual(group([1, 2, 3, 4], n => n % 2).get(0), [2, 4]);
  let sum = 0;
  for await (const n of numbers(10)) sum += n;
  assert.equal(sum, 45);
  assert.equal(2n ** 100n % 97n, 16n);
  assert.equal(new Intl.DateTimeFormat('de', { timeZone: 'Europe/Berlin', timeStyle: 'short' }).format(0), '01:00');
  writeFileSync('/tmp/text', 'héllo ✓ 日本');
  assert.equal([...readFileSync('/tmp/text', 'utf8')].length, 10);
  assert.equal(Kind[shapes[0].kind], 'Square');
  console.log('done');
}
main();
