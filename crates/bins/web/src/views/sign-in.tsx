// Signing in: by a link, or with a token that is typed in.

import { useState } from 'preact/hooks';
import { signIn } from '../ui/session';
import { Command, Text } from '../ui/parts';

export function SignIn() {
  const [token, set] = useState('');
  const [problem, fail] = useState<string | null>(null);
  const submit = (event: Event) => {
    event.preventDefault();
    fail(null);
    signIn({ token: token.trim() }).then(
      () => set(''),
      (caught: unknown) => fail(caught instanceof Error ? caught.message : String(caught)),
    );
  };
  return (
    <section class="sign-in">
      <h1>Sign in</h1>
      <p>On the machine of the server, or wherever you have a token, ask for a link. It works once, within a minute:</p>
      <Command words={['orlop', 'ui']} />
      <form onSubmit={submit}>
        <label>
          Or give a token
          <input type="password" value={token} onInput={(event) => set(event.currentTarget.value)} autocomplete="off" required />
        </label>
        {problem && (
          <p class="refused" role="alert">
            <Text text={problem} />
          </p>
        )}
        <button type="submit" class="primary">
          Sign in
        </button>
      </form>
    </section>
  );
}
