import type { Dice } from "./dice.ts";
import type { Network } from "./world.ts";

/** How bad a network is. */
export type Badness = {
  /** Share of datagrams that are lost. */
  readonly loss: number;
  /** Share of the others that arrive twice. */
  readonly duplication: number;
  /** Each copy takes a random time between these, so that one overtakes another. */
  readonly fastest_us: number;
  readonly slowest_us: number;
};

/** A network that loses, copies and reorders datagrams by what dice say. */
export function badNetwork(dice: Dice, { loss, duplication, fastest_us, slowest_us }: Badness): Network {
  const delay_us = (): number => dice.between(fastest_us, slowest_us);
  return () => {
    if (dice.chance(loss)) return [];
    return dice.chance(duplication) ? [delay_us(), delay_us()] : [delay_us()];
  };
}

/** A network that delivers everything in order after this time. */
export function goodNetwork(delay_us: number): Network {
  return () => [delay_us];
}
