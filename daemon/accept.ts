/** How much an Accept header wants a type, 0..1: the most particular range that fits decides. */
function weightOf(accept: string, type: string): number {
  let [best, weight] = [-1, 0];
  for (const part of accept.split(',')) {
    const [range = '', ...parameters] = part.split(';').map((one) => one.trim().toLowerCase());
    const fit = [`*/*`, `${type.split('/')[0]}/*`, type].indexOf(range);
    if (fit <= best) continue;
    const q = Number(parameters.find((one) => one.startsWith('q='))?.slice(2) ?? 1);
    [best, weight] = [fit, q >= 0 && q <= 1 ? q : 0];
  }
  return weight;
}

/** Whether JSON is preferred to the other type that there is; without a preference it is not. */
export const prefersJson = (accept: string | undefined, other: string): boolean =>
  accept !== undefined && weightOf(accept, 'application/json') > weightOf(accept, other);
