type Event = { readonly at_us: number; readonly order: number; readonly run: () => void };

/** Events by their time, and those of one time in the order in which they came: a binary heap. */
export class EventQueue {
  readonly #heap: Event[] = [];
  #order = 0;

  /** Time of the next event. */
  get next_us(): number {
    return this.#heap[0]?.at_us ?? Number.POSITIVE_INFINITY;
  }

  /** Adds an event. */
  add(at_us: number, run: () => void): void {
    const heap = this.#heap;
    const event = { at_us, order: this.#order++, run };
    let at = heap.length;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent] as Event;
      if (isBefore(above, event)) break;
      heap[at] = above;
      at = parent;
    }
    heap[at] = event;
  }

  /** Takes the next event out. */
  take(): Event | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return first;
    let at = 0;
    for (;;) {
      const left = 2 * at + 1;
      if (left >= heap.length) break;
      const right = left + 1;
      const child = right < heap.length && isBefore(heap[right] as Event, heap[left] as Event) ? right : left;
      if (isBefore(last, heap[child] as Event)) break;
      heap[at] = heap[child] as Event;
      at = child;
    }
    heap[at] = last;
    return first;
  }
}

function isBefore(left: Event, right: Event): boolean {
  return left.at_us < right.at_us || (left.at_us === right.at_us && left.order < right.order);
}
