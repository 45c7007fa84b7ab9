import type { InputRequest } from '../../src/api/inputs.ts';

/** What is on the screen when a key comes. */
export interface Situation {
  mode: 'run' | 'attach';
  pending: InputRequest | null;
  confirming: boolean;
  /** The request for which it is shown what `always` would allow; null when it is not. */
  always: string | null;
  cancelling: boolean;
  typing: string | null;
}

/** A key as Ink gives it. */
export interface Pressed {
  input: string;
  ctrl?: boolean;
  escape?: boolean;
  return?: boolean;
  backspace?: boolean;
  delete?: boolean;
}

/** What a key means. */
export type Action =
  | { do: 'nothing' }
  | { do: 'cancel' | 'ask-cancel' | 'unask' | 'leave' | 'toggle-thinking' | 'toggle-output' }
  | { do: 'show-always'; request: string | null }
  | { do: 'type'; text: string | null }
  | { do: 'answer'; request: InputRequest; answer: { option_id: string } | { text: string } };

const nothing: Action = { do: 'nothing' };

/** The meaning of a key in a situation. Ctrl-C in `run` cancels and then leaves; in `attach` it leaves. */
export function actionOf({ mode, pending, confirming, always, cancelling, typing }: Situation, key: Pressed): Action {
  if (key.ctrl && key.input === 'c') return mode === 'attach' || cancelling ? { do: 'leave' } : { do: 'cancel' };
  if (typing !== null) return typed(typing, pending, key);
  if (key.ctrl) return nothing;
  if (confirming) return key.input === 'y' ? { do: 'cancel' } : { do: 'unask' };
  const answer = pending && answerOf(pending, key.input);
  if (pending && answer) {
    // What is allowed for good is shown before it is.
    if (key.input === 'a' && always !== pending.id) return { do: 'show-always', request: pending.id };
    return { do: 'answer', request: pending, answer };
  }
  if (key.escape) return { do: 'show-always', request: null };
  switch (key.input) {
    case 'i':
      return pending?.allow_text ? { do: 'type', text: '' } : nothing;
    case 'x':
      if (cancelling) return nothing;
      return mode === 'attach' ? { do: 'ask-cancel' } : { do: 'cancel' };
    case 'q':
      return { do: 'leave' };
    case 't':
      return { do: 'toggle-thinking' };
    case 'e':
      return { do: 'toggle-output' };
    default:
      return nothing;
  }
}

function answerOf({ options }: InputRequest, input: string): { option_id: string } | undefined {
  const kinds = { y: ['allow_once'], a: ['allow_always'], r: ['reject_once', 'reject_always'] }[input];
  const asked = kinds?.flatMap((kind) => options.filter((option) => option.kind === kind))[0];
  const choice = /^[1-9]$/.test(input) ? options.filter(({ kind }) => kind === 'choice')[Number(input) - 1] : undefined;
  const found = asked ?? choice;
  return found && { option_id: found.id };
}

function typed(text: string, request: InputRequest | null, key: Pressed): Action {
  if (key.escape || !request) return { do: 'type', text: null };
  if (key.return) return text.trim() ? { do: 'answer', request, answer: { text } } : nothing;
  if (key.backspace || key.delete) return { do: 'type', text: Array.from(text).slice(0, -1).join('') };
  return key.input && !key.ctrl ? { do: 'type', text: text + key.input.replaceAll(/\p{Cc}/gu, ' ') } : nothing;
}
