/** Computes the multiples of Ed25519's base point that `scalarmult_base.c` adds up, from the curve's definition. */

/** @typedef {{ x: bigint, y: bigint }} Point a point of -x^2 + y^2 = 1 + d x^2 y^2, as RFC 8032, 5.1, defines it */

const PRIME = 2n ** 255n - 19n;
const D = modulo(-121665n * inverse(121666n));
/** @type {Point} */
const BASE = {
  x: 15112221349535400772501151409588531511454012693041857206046113283949847762202n,
  y: 46316835694926478169428394003475163141307993866256225615783033603165251855960n,
};

const ROWS = 4;
const DIGITS_IN_ROW = 4;
/** How many doublings lie between two digits of a row. */
const SPACING = 16;

/** @param {bigint} value */
function modulo(value) {
  return ((value % PRIME) + PRIME) % PRIME;
}

/**
 * @param {bigint} value
 * @returns {bigint} the value to the power of the prime less 2, which is its inverse
 */
function inverse(value) {
  let power = 1n;
  let square = modulo(value);
  for (let exponent = PRIME - 2n; exponent > 0n; exponent >>= 1n) {
    if ((exponent & 1n) === 1n) {
      power = (power * square) % PRIME;
    }
    square = (square * square) % PRIME;
  }
  return power;
}

/**
 * @param {Point} p
 * @param {Point} q
 * @returns {Point}
 */
function add(p, q) {
  const product = modulo(D * p.x * q.x * p.y * q.y);
  return {
    x: modulo((p.x * q.y + q.x * p.y) * inverse(1n + product)),
    y: modulo((p.y * q.y + p.x * q.x) * inverse(1n - product)),
  };
}

/**
 * @param {Point} point
 * @returns {Point}
 */
function negate({ x, y }) {
  return { x: modulo(-x), y };
}

/**
 * @param {bigint} value
 * @returns {string} the field element as libsodium's `fe25519_frombytes` takes it
 */
function bytes(value) {
  const found = Array.from({ length: 32 }, (_, at) => (value >> BigInt(8 * at)) & 255n);
  return `{ ${found.join(", ")} }`;
}

/** @returns {string} what initialises `base_bytes` in `scalarmult_base.c`, which says what it holds */
export function baseTable() {
  const rows = [];
  let power = BASE;
  for (let row = 0; row < ROWS; row++) {
    /** @type {Point[]} */
    const digits = [];
    for (let digit = 0; digit < DIGITS_IN_ROW; digit++) {
      digits.push(power);
      for (let doubling = 0; doubling < SPACING; doubling++) {
        power = add(power, power);
      }
    }
    const top = /** @type {Point} */ (digits.pop());
    const signs = Array.from({ length: 2 ** digits.length }, (_, n) =>
      digits.reduce((sum, point, bit) => add(sum, (n >> bit) & 1 ? point : negate(point)), top),
    );
    rows.push(`{ ${signs.map(({ x, y }) => `{ ${bytes(x)}, ${bytes(y)} }`).join(",\n")} }`);
  }
  return rows.join(",\n");
}
