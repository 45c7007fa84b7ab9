/** Wake-ups by name. A wake-up carries no data: whoever is woken reads for itself. */
export interface Signal<Name> {
  wake(name: Name): void;
  /** Calls back at each wake-up of this name; the answer ends that. */
  follow(name: Name, callback: () => void): () => void;
}

/** A signal that nobody follows yet. */
export function createSignal<Name>(): Signal<Name> {
  const followers = new Map<Name, Set<() => void>>();
  return {
    wake(name) {
      for (const callback of followers.get(name) ?? []) callback();
    },
    follow(name, callback) {
      const set = followers.get(name) ?? new Set();
      followers.set(name, set.add(callback));
      return () => {
        set.delete(callback);
        if (set.size === 0) followers.delete(name);
      };
    },
  };
}
