/** So many empty places at the front are cleared away at once. */
const MIN_CLEARED = 64;

/** A queue whose items can also be read by their place. */
export class Deque<T> {
  readonly #items: T[] = [];
  #head = 0;

  /** How many items it has. */
  get length(): number {
    return this.#items.length - this.#head;
  }

  /** The item that would be taken next. */
  get first(): T | undefined {
    return this.#items[this.#head];
  }

  /** The item at a place, from 0 at the front. */
  at(index: number): T | undefined {
    return this.#items[this.#head + index];
  }

  /** Appends an item. */
  push(item: T): void {
    this.#items.push(item);
  }

  /** Takes the first item. */
  shift(): T | undefined {
    const first = this.#items[this.#head];
    if (this.#head < this.#items.length) this.#head++;
    if (this.#head === this.#items.length) this.clear();
    // Each item is moved at most once for each that was taken.
    else if (this.#head >= MIN_CLEARED && this.#head * 2 >= this.#items.length) {
      this.#items.splice(0, this.#head);
      this.#head = 0;
    }
    return first;
  }

  /** Takes all items, in their order. */
  drain(): T[] {
    const items = this.#items.slice(this.#head);
    this.clear();
    return items;
  }

  /** Drops all items. */
  clear(): void {
    this.#items.length = 0;
    this.#head = 0;
  }

  /** The first place whose item passes a test that all items behind it pass as well; the length if none does. */
  search(test: (item: T) => boolean): number {
    let low = this.#head;
    let high = this.#items.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (test(this.#items[middle] as T)) high = middle;
      else low = middle + 1;
    }
    return low - this.#head;
  }
}
