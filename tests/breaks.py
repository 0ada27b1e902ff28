"""Code broken on purpose, to see that the tests notice: `make test-breaks`, or `python tests/breaks.py 3 17` for some.

Each break is a mistake that somebody could make, with the tests that are to fail on it. They are tried in a copy of
the tracked files, one at a time, after all of these tests have passed there with nothing broken. `test_breaks.py`
holds the list itself: every snippet is where it says, and the tests that it names are there.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FAILED = 1  # pytest's exit code where tests have failed; others say that none could run


class Break(NamedTuple):
    """One mistake."""

    file: str  # below the root of the repository
    before: str  # a snippet that is in the file once
    after: str  # what it becomes
    tests: str  # the narrowest that are to fail: FILE::TEST, below tests/; or several, with spaces between them
    equivalent: str = ""  # why nothing can fail, if the code does the same


BREAKS = [
    # --- the Hub set ------------------------------------------------------------------------------------------
    Break(
        "tinyseq/modeling_tinyseq.py",
        "self.scaling = self.head_dim**-0.5",
        "self.scaling = config.d_model**-0.5",
        "test_modeling_tinyseq.py::test_attention_is_softmax_of_scaled_scores_times_values_head_by_head",
    ),
    Break(
        "tinyseq/modeling_tinyseq.py",
        "scores.masked_fill(~attention_mask, lowest)",
        "scores.masked_fill(attention_mask, lowest)",
        "test_modeling_tinyseq.py::test_eager_attention_equals_torchs_scaled_dot_product_attention",
    ),
    Break(
        "tinyseq/modeling_tinyseq.py",
        "10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)",
        "10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / (width - 2))",
        "test_modeling_tinyseq.py::test_sinusoidal_table_is_the_papers_formula_sines_first",
    ),
    Break(
        "tinyseq/modeling_tinyseq.py",
        "(torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device) + past_length).unsqueeze(0)",
        "torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device).unsqueeze(0)",
        "test_modeling_tinyseq.py::test_decoding_step_by_step_with_a_cache_equals_one_pass_up_to_the_limit",
    ),
    Break(
        "tinyseq/modeling_tinyseq.py",
        "(attention_mask.long().cumsum(-1) - 1).clamp(min=0)",
        "attention_mask.long().cumsum(-1)",
        "test_modeling_tinyseq.py"
        "::test_the_first_layer_gets_scaled_embedding_plus_position_counted_from_the_first_real_piece",
    ),
    Break(
        "tinyseq/modeling_tinyseq.py",
        "shifted = torch.cat([begin, labels[:, :-1]], dim=1)",
        "shifted = torch.cat([begin, labels[:, 1:]], dim=1)",
        "test_modeling_tinyseq.py::test_the_decoder_reads_begin_and_the_labels_before_and_never_minus_100",
    ),
    Break(
        "tinyseq/modeling_tinyseq.py",
        "num_items_in_batch = labels.ne(IGNORE_INDEX).sum().clamp(min=1)",
        "num_items_in_batch = labels.numel()",
        "test_modeling_tinyseq.py::test_the_loss_is_the_mean_over_real_tokens_of_unshifted_labels",
    ),
    Break(
        "tinyseq/losses_tinyseq.py",
        "ctx.scale = 256 / (256 - dropped)",
        "ctx.scale = 1 / (1 - probability)",
        "test_modeling_tinyseq.py::test_dropout_drops_the_share_asked_for_in_every_byte_of_a_draw_and_keeps_the_mean",
    ),
    Break(
        "tinyseq/losses_tinyseq.py",
        "gradient -= label_smoothing / vocab",
        "gradient -= label_smoothing",
        "test_modeling_tinyseq.py::test_without_logits_loss_and_all_gradients_are_the_same_beyond_one_chunk",
    ),
    Break(
        "tinyseq/losses_tinyseq.py",
        "scored = labels != IGNORE_INDEX",
        "scored = labels > 0",
        "test_modeling_tinyseq.py::test_the_projected_loss_is_cross_entropy_of_the_projection_with_a_constant_logit",
    ),
    Break(
        "tinyseq/tokenization_tinyseq.py",
        "normalizers.Sequence([normalizers.NFC(), ",
        "normalizers.Sequence([normalizers.NFKC(), ",
        "test_tokenization_tinyseq.py::test_decoding_gives_the_encoded_text_back",
    ),
    Break(
        "tinyseq/tokenization_tinyseq.py",
        "(-counts[character], character)",
        "(counts[character], character)",
        "test_tokenization_tinyseq.py"
        "::test_of_too_many_characters_the_frequent_ones_get_pieces_and_the_rare_ones_bytes",
    ),
    Break(
        "tinyseq/tokenization_tinyseq.py",
        "self.backend_tokenizer.no_truncation()",
        "pass",
        "test_tokenization_tinyseq.py::test_the_truncation_and_padding_of_a_call_are_not_saved",
    ),
    Break(
        "tinyseq/configuration_tinyseq.py",
        "if not 0 <= getattr(self, name) < 1:",
        "if not 0 <= getattr(self, name) <= 1:",
        "test_configuration_tinyseq.py::test_a_dropout_that_is_no_probability_below_one_is_refused",
    ),
    Break(
        "tinyseq/configuration_tinyseq.py",
        'return self.encoder_attention_heads if attention == "encoder" else self.decoder_attention_heads',
        'return self.decoder_attention_heads if attention == "decoder" else self.encoder_attention_heads',
        "test_modeling_tinyseq.py::test_a_post_norm_model_gives_the_logits_of_marian_with_the_same_weights",
    ),
    Break(
        "tinyseq/push_tinyseq.py",
        "        if private:\n            private_repository(repo_id, token)",
        "        if private is None:\n            private_repository(repo_id, token)",
        "hub/test_hub_privacy.py::test_model_tokenizer_and_config_refuse_a_public_repository_and_make_a_private_one",
    ),
    # --- corpus -----------------------------------------------------------------------------------------------
    Break(
        "tinyseq/corpus/readers.py",
        'raw = raw[:-2] if raw.endswith(b"\\r\\n") else raw[:-1]',
        'raw = raw.rstrip(b"\\r\\n")',
        "corpus/test_loading.py::test_only_the_carriage_return_before_a_line_feed_is_removed",
    ),
    Break(
        "tinyseq/corpus/readers.py",
        "for source, target in zip_longest(sources, targets):",
        "for source, target in zip(sources, targets):",
        "corpus/test_loading.py::test_unequal_line_counts_are_refused_with_both_numbers_and_names",
    ),
    Break(
        "tinyseq/corpus/readers.py",
        'line.removeprefix("\\ufeff") if number == 1 else line',
        'line.removeprefix("\\ufeff")',
        "corpus/test_loading.py::test_a_byte_order_mark_is_removed_at_the_start_of_a_file_only",
    ),
    Break(
        "tinyseq/corpus/checks.py",
        'unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())',
        'unicodedata.normalize("NFC", text).casefold()',
        "corpus/test_checks.py::test_what_is_normalised_stays_as_it_is_in_every_form "
        "corpus/test_checks.py::test_a_text_in_capitals_is_the_same_text_though_its_accents_come_apart",
    ),
    Break(
        "tinyseq/corpus/checks.py",
        "if self.remember and found not in self.drop:",
        "if self.remember:",
        "corpus/test_checks.py::test_a_pair_is_no_duplicate_of_one_that_was_left_out",
    ),
    Break(
        "tinyseq/corpus/checks.py",
        "if CJK_WEIGHT * longer <= MOST_RATIO * shorter + RATIO_SLACK:",
        "if longer <= MOST_RATIO * shorter + RATIO_SLACK:",
        "corpus/test_checks.py::test_a_chinese_translation_of_an_english_sentence_is_not_too_short",
    ),
    Break(
        "tinyseq/corpus/loading.py",
        "groups.setdefault(normalised(text), []).append(row)",
        "groups.setdefault(text, []).append(row)",
        "corpus/test_loading.py::test_a_split_never_puts_one_source_on_both_sides_whatever_its_case",
    ),
    # --- grammar ----------------------------------------------------------------------------------------------
    Break(
        "tinyseq/grammar/phrases.py",
        'return "el" if form == "la" and stressed_a else form',
        "return form",
        "grammar/test_grammar.py::test_feminine_water_takes_el_but_a_feminine_adjective",
    ),
    Break(
        "tinyseq/grammar/phrases.py",
        "links.extend([(source_start + i, target_start + j) for i, j in parts[index].links])",
        "links.extend([(target_start + i, source_start + j) for i, j in parts[index].links])",
        "grammar/test_grammar.py::test_hand_made_sentences_come_out_with_their_translation_and_exact_links",
    ),
    Break(
        "tinyseq/grammar/splits.py",
        "if min(len(phrase.english), len(phrase.spanish)) > LONGEST:",
        "if max(len(phrase.english), len(phrase.spanish)) > LONGEST:",
        "grammar/test_grammar.py"
        "::test_test_longer_is_longer_than_any_other_sentence_in_both_languages_and_knows_its_words",
    ),
    Break(
        "tinyseq/grammar/splits.py",
        'int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") % buckets',
        "hash(text) % buckets",
        "grammar/test_grammar.py::test_the_same_seed_gives_the_same_bytes_in_a_fresh_process_with_another_hash_seed",
    ),
    Break(
        "tinyseq/grammar/measuring.py",
        "pair.referent in found and _other_gender(pair.referent) not in found",
        "pair.referent in found",
        "grammar/test_grammar.py::test_a_referent_is_right_only_in_the_right_gender_and_not_also_in_the_other",
    ),
    # --- batching ---------------------------------------------------------------------------------------------
    Break(
        "tinyseq/batching/encoding.py",
        "max(len(s), len(t)) <= max_length",
        "len(s) <= max_length",
        "batching/test_batching.py::test_too_long_pairs_are_left_out_whole_and_counted",
    ),
    Break(
        "tinyseq/batching/encoding.py",
        "digest.update(np.fromiter(map(len, side), dtype=np.int64, count=len(side)).tobytes())",
        "pass",
        "batching/test_batching.py::test_each_change_of_texts_or_limit_has_another_fingerprint",
    ),
    Break(
        "tinyseq/batching/stream.py",
        "if (place + 1 - starts[-1]) * widest > batch_size_tokens:",
        "if (place - starts[-1]) * widest > batch_size_tokens:",
        "batching/test_batching.py::test_no_batch_exceeds_the_budget_on_either_side",
    ),
    Break(
        "tinyseq/batching/stream.py",
        "np.random.default_rng([seed, block])",
        "np.random.default_rng(seed)",
        "batching/test_batching.py::test_pairs_of_equal_length_meet_other_pairs_in_the_next_epoch",
    ),
    Break(
        "tinyseq/batching/stream.py",
        'batch_number >= self.state["next_batch"]',
        'batch_number > self.state["next_batch"]',
        "batching/test_batching.py::test_a_resumed_stream_is_the_tail_of_the_unbroken_one",
    ),
    Break(
        "tinyseq/batching/stream.py",
        "pad_rows(pairs.targets, indices, IGNORE_INDEX)",
        "pad_rows(pairs.targets, indices, pad_token_id)",
        "batching/test_batching.py::test_tensors_are_padded_on_the_right_and_labels_with_minus_100",
    ),
    Break(
        "tinyseq/batching/mixing.py",
        'self.passes = state["epoch"] if state else 0',
        "self.passes = 0",
        "batching/test_mixing.py::test_a_reader_with_the_state_of_another_goes_on_where_that_one_was",
    ),
    # --- training ---------------------------------------------------------------------------------------------
    Break(
        "tinyseq/training/run.py",
        "num_items_in_batch=tokens / processes,",
        "num_items_in_batch=tokens / processes * len(group),",
        "training/test_train.py::test_two_processes_give_the_weights_of_one_with_the_same_global_batch",
    ),
    Break(
        "tinyseq/training/run.py",
        "progress.batches + number * processes + accelerator.process_index",
        "progress.batches + number * processes",
        "training/test_train.py::test_two_processes_give_the_weights_of_one_with_the_same_global_batch",
    ),
    Break(
        "tinyseq/training/run.py",
        "if progress.data:\n            self.batches.state = progress.data",
        "if progress.data and progress.finished:\n            self.batches.state = progress.data",
        "training/test_training_loop.py::test_a_run_goes_on_as_if_nothing_had_happened",
    ),
    Break(
        "tinyseq/training/run.py",
        "        self.state.optimizer.zero_grad()\n",
        "",
        "training/test_training_loop.py::test_a_run_goes_on_as_if_nothing_had_happened",
    ),
    Break(
        "tinyseq/training/run.py",
        "is_good = math.isfinite(loss_sum) and math.isfinite(gradient_norm)",
        "is_good = math.isfinite(loss_sum)",
        "training/test_training_loop.py::test_an_update_with_a_finite_loss_and_a_gradient_that_is_none_is_left_out",
    ),
    Break(
        "tinyseq/training/options.py",
        'POSITIVE = Range("greater than 0", lambda number: 0 < number < math.inf)',
        'POSITIVE = Range("greater than 0", lambda number: 0 <= number < math.inf)',
        "training/test_options.py::test_a_number_out_of_its_range_is_refused_by_name_with_what_is_allowed",
    ),
    Break(
        "tinyseq/training/options.py",
        'option("gradients are scaled down to this norm; 0: never", 1.0, NOT_NEGATIVE)',
        'option("gradients are scaled down to this norm; 0: never", 1.0)',
        "training/test_options.py::test_every_number_has_a_range_and_its_default_is_in_it",
    ),
    Break(
        "tinyseq/training/options.py",
        "return option(help_text, default, decides_weights=False, is_private=True, of_machine=True)",
        "return option(help_text, default, decides_weights=False, of_machine=True)",
        "hub/test_card.py::test_facts_of_a_run_hold_no_folders_and_no_places_of_the_machine",
    ),
    Break(
        "tinyseq/training/schedule.py",
        "return options.learning_rate * (step + 1) / warmup",
        "return options.learning_rate * step / warmup",
        "training/test_train.py::test_the_rate_rises_in_the_warm_up_and_is_near_zero_at_the_last_update_only",
    ),
    Break(
        "tinyseq/training/schedule.py",
        "left = (steps - step) / (steps - warmup)",
        "left = (steps - step - 1) / (steps - warmup)",
        "training/test_train.py::test_the_rate_rises_in_the_warm_up_and_is_near_zero_at_the_last_update_only",
    ),
    Break(
        "tinyseq/training/state.py",
        'self.average.load_state_dict(found["average"])',
        "pass",
        "training/test_training_loop.py::test_a_moving_average_and_a_stream_of_weighted_corpora_go_on_as_well",
    ),
    Break(
        "tinyseq/training/checkpoint.py",
        "(-scores[step], step)",
        "(scores[step], step)",
        "training/test_checkpoint.py::test_the_newest_and_the_best_stay",
    ),
    Break(
        "tinyseq/training/checkpoint.py",
        'if digest != recorded["sha256"]:',
        "if not digest:",
        "training/test_checkpoint.py::test_a_damaged_checkpoint_is_passed_over_with_the_name_of_the_file",
    ),
    Break(
        "tinyseq/files.py",
        'for path in (*aside.rglob("*"), aside):',
        "for path in (aside,):",
        "training/test_checkpoint.py::test_files_and_folders_are_on_the_disk_before_the_name_is_and_the_name_after",
    ),
    Break(
        "tinyseq/files.py",
        '        with open(aside, "wb") as output:\n            yield output\n        os.replace(aside, path)',
        '        with open(path, "wb") as output:\n            yield output',
        "cli/test_cli.py::test_an_output_is_written_whole_or_not_at_all",
    ),
    Break(
        "tinyseq/training/distributed.py",
        "[text for _, text in sorted(gather_object(texts))]",
        "[text for _, text in gather_object(texts)]",
        "training/test_distributed.py::test_translations_come_back_in_order_whatever_their_lengths",
    ),
    Break(
        "tinyseq/training/log.py",
        'json.loads(line)["batches"] <= batches',
        'json.loads(line)["batches"] < batches',
        "training/test_training_loop.py::test_a_log_of_batches_goes_on_behind_the_batches_of_the_checkpoint",
    ),
    Break(
        "tinyseq/training/validation.py",
        "num_items_in_batch=1, ",
        "",
        "training/test_training_loop.py::test_the_validation_loss_is_that_of_a_target_token_over_batches_of_unequal_sizes",
    ),
    Break(
        "tinyseq/training/validation.py",
        'sign = -1 if metric == "loss" else METRICS[metric].sign',
        "sign = 1",
        "training/test_options.py"
        "::test_every_metric_can_choose_the_best_model_and_one_where_less_is_better_turned_round",
    ),
    Break(
        "tinyseq/training/optimization.py",
        '"weight_decay": 0.0}',
        '"weight_decay": weight_decay}',
        "training/test_training_loop.py::test_what_has_one_dimension_does_not_decay",
    ),
    Break(
        "tinyseq/training/optimization.py",
        "max(1 - decay, 9 / (10 + float(updates)))",
        "min(1 - decay, 9 / (10 + float(updates)))",
        "training/test_training_loop.py"
        "::test_the_moving_average_counts_new_weights_by_one_minus_the_decay_once_it_has_begun",
    ),
    # --- attention --------------------------------------------------------------------------------------------
    Break(
        "tinyseq/attention/words.py",
        "weights[..., group].sum(-1) for group in columns",
        "weights[..., group].mean(-1) for group in columns",
        "attention/test_maps.py::test_of_a_word_the_columns_are_added_and_the_rows_averaged",
    ),
    Break(
        "tinyseq/attention/maps.py",
        "every[layer][:, config.heads_kept(attention, layer)] = weights",
        "every[layer][:, : weights.shape[1]] = weights",
        "attention/test_pruning.py::test_heads_keep_their_numbers_in_the_maps",
    ),
    Break(
        "tinyseq/attention/maps.py",
        "log_probs.masked_fill(labels < 0, 0)",
        "log_probs.masked_fill(labels <= 0, 0)",
        "attention/test_maps.py::test_the_maps_are_what_numpy_makes_of_the_weights",
    ),
    Break(
        "tinyseq/attention/maps.py",
        'layers["cross"] = output.cross_attentions',
        'layers["cross"] = output.cross_attentions[::-1]',
        "attention/test_maps.py::test_the_maps_are_what_numpy_makes_of_the_weights",
    ),
    Break(
        "tinyseq/attention/pruning.py",
        "torch.tensor([before[name][layer].index(head) for head in after[name][layer]])",
        "torch.tensor(after[name][layer])",
        "attention/test_pruning.py::test_pruning_again_goes_on_from_what_is_there",
    ),
    Break(
        "tinyseq/attention/pruning.py",
        "for head in by_importance[:-1]]",
        "for head in by_importance[1:]]",
        "attention/test_pruning.py::test_the_least_important_heads_go_first_and_the_most_important_of_a_layer_stays",
    ),
    Break(
        "tinyseq/attention/heads.py",
        "gradient.abs().sum(0)",
        "gradient.sum(0).abs()",
        "attention/test_heads.py::test_importance_is_the_slope_of_the_loss_along_the_gate",
    ),
    Break(
        "tinyseq/attention/heads.py",
        "gate.repeat_interleave(states.shape[0] // gate.shape[0], dim=0)",
        "gate.repeat(states.shape[0] // gate.shape[0], 1)",
        "attention/test_heads.py::test_the_translations_without_each_head_are_those_of_models_without_it",
    ),
    Break(
        "tinyseq/attention/pages/__init__.py",
        '.replace("<", "\\\\u003c")',
        "",
        "attention/test_pages.py::test_neither_a_title_nor_a_text_can_end_the_element_that_it_stands_in",
    ),
    Break(
        "tinyseq/attention/pages/__init__.py",
        "{html.escape(title)}",
        "{title}",
        "attention/test_pages.py::test_neither_a_title_nor_a_text_can_end_the_element_that_it_stands_in",
    ),
    # --- hub --------------------------------------------------------------------------------------------------
    Break(
        "tinyseq/hub/card.py",
        'return text.isprintable() and not any(mark in text for mark in ("```", "~~~", "<!--"))',
        "return text.isprintable()",
        "hub/test_card.py::test_the_snippet_is_code_whatever_the_example_is",
    ),
    Break(
        "tinyseq/hub/card.py",
        'return re.sub(r"([\\\\`*_\\[\\]|<>!~])", r"\\\\\\1", " ".join(text.split()))',
        'return " ".join(text.split())',
        "hub/test_card.py::test_a_sentence_in_a_table_means_itself",
    ),
    Break(
        "tinyseq/hub/push.py",
        "files = [path for path in found if not OF_THE_RUN.fullmatch(path.name)]",
        "files = found",
        "hub/test_hub_push.py::test_of_what_a_run_keeps_in_a_checkpoint_only_the_model_is_pushed",
    ),
    Break(
        "tinyseq/hub/push.py",
        "return private_repository(name, token)",
        "return api.create_repo(name, private=True, exist_ok=True).repo_id",
        "hub/test_hub_privacy.py::test_nothing_is_pushed_into_a_public_repository_if_private_was_asked",
    ),
    # --- text in, text out ------------------------------------------------------------------------------------
    Break(
        "tinyseq/translation.py",
        "for i, hypothesis, has_ended in zip(batch, decoded, ended, strict=True):",
        "for i, hypothesis, has_ended in zip(sorted(batch), decoded, ended, strict=True):",
        "test_translation.py::test_what_was_learned_comes_out_in_the_order_of_the_input",
    ),
    Break(
        "tinyseq/translation.py",
        "return Translations(translations, too_long, sorted(unfinished))",
        "return Translations([text for text in translations if text], too_long, sorted(unfinished))",
        "test_translation.py::test_blank_texts_stay_blank_do_not_reach_the_model_and_leave_their_neighbours_alone",
    ),
    Break(
        "tinyseq/evaluation.py",
        "metric.corpus_score(list(hypotheses), streams).score",
        "metric.corpus_score([text.lower() for text in hypotheses], streams).score",
        "test_evaluation.py::test_scores_and_signatures_are_those_of_the_sacrebleu_command_line",
    ),
    Break(
        "tinyseq/pipeline.py",
        "**{**self._forward_params, **generate_options}",
        "**{**generate_options, **self._forward_params}",
        "test_pipeline.py::test_the_batch_size_and_generate_options_of_a_call_go_before_those_it_was_made_with",
    ),
    # --- the command line -------------------------------------------------------------------------------------
    Break(
        "tinyseq/cli/main.py",
        "return EXIT_ERROR",
        "return 0",
        "cli/test_cli.py::test_what_the_user_can_put_right_is_one_line_and_exit_code_2",
    ),
    Break(
        "tinyseq/cli/common.py",
        '"".join(f"{line}\\n" for line in lines)',
        '"".join(f"{line}\\n" for line in lines if line)',
        "cli/test_cli.py::test_a_pipe_gets_a_line_for_each_line_and_nothing_on_stderr_whatever_the_locale",
    ),
]


def copy_of_the_tree(folder: Path) -> None:
    """Copies the tracked files, as they are now."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, names.decode().split("\0")):
        if (ROOT / name).is_file():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes((ROOT / name).read_bytes())


def run_tests(tree: Path, tests: list[str]) -> tuple[int, str]:
    """Returns pytest's exit code and what it printed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*command, *(f"tests/{test}" for test in tests)],
        cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    return done.returncode, done.stdout


def outcome(one: Break, tree: Path) -> str:
    """Breaks the code in the copy, returns what the tests say, and puts it back."""
    path = tree / one.file
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole.replace(one.before, one.after), encoding="utf-8")
    try:
        code, text = run_tests(tree, one.tests.split())
    finally:
        path.write_text(whole, encoding="utf-8")
    if code == FAILED:
        return "caught"
    if code == 0:
        return f"equivalent: {one.equivalent}" if one.equivalent else "SURVIVED"
    return f"NO RESULT, pytest ended with {code}:\n{text}"


def main(arguments: list[str]) -> int:
    """Tries all breaks, or those of the given numbers, from 1; returns 1 if one was not caught."""
    numbers = [int(number) for number in arguments] or range(1, len(BREAKS) + 1)
    lost = 0
    with tempfile.TemporaryDirectory(prefix="tinyseq-breaks-") as folder:
        tree = Path(folder)
        copy_of_the_tree(tree)
        code, text = run_tests(tree, sorted({test for number in numbers for test in BREAKS[number - 1].tests.split()}))
        if code:
            print(f"with nothing broken pytest ended with {code}:\n{text}")
            return 1
        for number in numbers:
            one, begin = BREAKS[number - 1], time.perf_counter()
            found = outcome(one, tree)
            lost += not found.startswith(("caught", "equivalent"))
            print(f"{number:>3}  {time.perf_counter() - begin:4.0f} s  {one.file:<38}  {found}", flush=True)
    print(f"{len(numbers)} breaks, {lost} not caught")
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
